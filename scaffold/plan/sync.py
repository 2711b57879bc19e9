"""How each trained model's gradients are synchronised: through a DDP wrapper, or averaged by hand before each step.

DDP reduces gradients in hooks that one backward fires after each wrapped forward. Where a script's order of calls does not
fit that (two backwards on one forward, layers thawed while it trains, a part called on its own), averaging ``p.grad`` just before
``optimizer.step()`` gives the same gradients without the overlap of communication and computation.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from scaffold.plan.places import Storage, argument_for, common_suite, parameters, statement_in, storages
from scaffold.roles import api, calls
from scaffold.roles.facts import Facts, Model, Optimizer, deep_tags
from scaffold.roles.trace import Event, Frame
from scaffold.roles.values import Inst, combined
from scaffold.source.tree import Source, Statement

SAFE_ON_WRAPPER = {"train", "eval", "parameters", "zero_grad", "training", "requires_grad_", "__call__", "no_sync", "forward"}


@dataclass(frozen=True)
class Replacement:
    """Put the wrapper in the place of ``node``; ``both`` where the place also runs without gradients."""

    source: Source
    node: cst.BaseExpression
    both: bool


@dataclass(eq=False)
class Sync:
    """The plan for models kept in one place."""

    models: list[Model]
    mode: str = "ddp"
    reason: str = ""
    storage: Storage | None = None
    anchor: Statement | None = None
    anchor_source: Source | None = None
    anchor_frame: Frame | None = None
    replacements: list[Replacement] = field(default_factory=list)
    unwrapped: list[tuple[Source, cst.BaseExpression]] = field(default_factory=list)
    unused: str = ""
    repeated: bool = False

    @property
    def optimizers(self) -> list[Optimizer]:
        """The optimizers of its models."""
        return list(dict.fromkeys(o for m in self.models for o in m.optimizers))


def plan_sync(facts: Facts) -> list[Sync]:
    """One plan for each place that keeps trained models."""
    groups = group_models(facts)
    for group in groups:
        reason = next((r for m in group.models if (r := _unfit(facts, m))), "")
        if not reason:
            reason = _place(facts, group)
        if reason:
            group.mode, group.reason = "average", reason
        group.repeated = any(facts.has_batch_norm(m.inst) and _repeated(facts, m) for m in group.models)
        group.unused = next((r for m in group.models if (r := unused_part(facts, m))), "")
    averaged = {o for g in groups if g.mode == "average" for o in g.optimizers}
    for group in groups:
        if group.mode == "ddp" and group.optimizers and all(o in averaged for o in group.optimizers):
            group.mode, group.reason = "average", "it shares an optimizer with a module whose gradients are averaged by hand"
    return groups


def _repeated(facts: Facts, model: Model) -> bool:
    """Whether one backward runs through several forwards of a model."""
    live = {e.node for e in model.live}
    return any(len({t.at for t in facts.loss_of(e).tags if t.kind == "grad" and t.of is model.inst and t.at in live}) > 1 for e in facts.backwards)


def group_models(facts: Facts) -> list[Sync]:
    """Trained models by the place that keeps them."""
    groups: list[Sync] = []
    for model in facts.models:
        nodes = {e.node for e in model.live}
        places = {s for e in model.live for s in storages(facts, _called(e), e.frame)}
        known = {p for p in places if p is not None}
        for group in groups:
            theirs = {e.node for m in group.models for e in m.live}
            if group.storage is not None and known == {group.storage} or (not known and nodes & theirs):
                group.models.append(model)
                break
        else:
            groups.append(Sync([model], storage=known.pop() if len(known) == 1 and None not in places else None))
    return groups


def _called(event: Event) -> cst.BaseExpression:
    """The expression for the module that a call runs."""
    assert isinstance(event.node, cst.Call)
    func = event.node.func
    return func.value if event.kind == "method" and isinstance(func, cst.Attribute) else func


# ---- does the order of calls fit DDP? ------------------------------------------------------------------------------


def _unfit(facts: Facts, model: Model) -> str:
    """Why a wrapper would not synchronise this model, '' if it would."""
    if not model.live:
        return "no call of it could be tied to a backward"
    for event in model.live:
        where = f"{event.source.name}:{event.source.line(event.node)}"
        if event.kind == "method":
            return f"{where} builds the loss through .{event.name}(), which does not pass through forward"
        if any(facts.trace.root(i) is not i for i in event.value.insts()):
            return f"{where} calls a part of it on its own"
    return disordered(facts, model) or changed_while_training(facts, model) or differentiated_by_hand(facts, model)


def disordered(facts: Facts, model: Model) -> str:
    """Why forwards and backwards do not alternate as gradient hooks need it, '' if they do."""
    consumed: dict[cst.CSTNode, list[Event]] = {}
    live = {e.node for e in model.live}
    pending: dict[cst.CSTNode, Event] = {}
    for event in facts.trace.events:
        if event.kind == "forward" and event.node in live and event.grad and any(facts.trace.root(i) is model.inst for i in event.value.insts()):
            consumed.pop(event.node, None)
            pending.setdefault(event.node, event)
        elif event in facts.backwards:
            nodes = {t.at for t in facts.loss_of(event).tags if t.kind == "grad" and t.of is model.inst and t.at in live}
            if not nodes:
                continue
            where = f"{event.source.name}:{event.source.line(event.node)}"
            if any(not _exclusive(e, event) for n in nodes if n is not None for e in consumed.get(n, ())):
                return f"{where} is a second backward over one forward, which DDP does not synchronise"
            if any(n not in nodes and not _exclusive(e, event) for n, e in pending.items()):
                return f"{where} is one of several backwards after several forwards, of which DDP synchronises the first only"
            for node in nodes:
                if node is not None:
                    consumed.setdefault(node, []).append(event)
                    pending.pop(node, None)
    return ""


def _exclusive(first: Event, second: Event) -> bool:
    """Whether two events cannot happen in one round of their loop: other branches of one test, or the first one's branch leaves the round."""
    sides = dict(second.branches)
    for node, side in first.branches:
        if node in sides and sides[node] is not side:
            return True
        if node not in sides and isinstance(node, cst.If):
            body = node.body if side else node.orelse.body if isinstance(node.orelse, cst.Else) else None
            last = body.body[-1] if isinstance(body, cst.IndentedBlock) else None
            if isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], (cst.Continue, cst.Break, cst.Return, cst.Raise)):
                return True
    return False


def _training_loops(facts: Facts, model: Model) -> set[cst.CSTNode]:
    return {x.node for e in model.live for x in e.loops}


def changed_while_training(facts: Facts, model: Model) -> str:
    """What freezes, thaws or replaces parts of a model in its training loop, '' if nothing does."""
    loops = _training_loops(facts, model)
    built = {x.node for i in [model.inst] for n, f in facts.trace.assigned.get(i, []) for e in facts.trace.events if e.node is n for x in e.loops}
    for event in facts.trace.events:
        inside = [x for x in event.loops if x.node in loops and x.node not in built]
        if not inside or not _touches(facts, event, model.inst):
            continue
        where = f"{event.source.name}:{event.source.line(event.node)}"
        if event.kind == "setattr" and event.name == "requires_grad":
            return f"{where} freezes or thaws parameters while it trains, which DDP's buckets do not follow"
        if event.kind == "call" and event.name in {"module.requires_grad_"}:
            return f"{where} freezes or thaws parameters while it trains, which DDP's buckets do not follow"
        if event.kind == "setattr" and event.args and any(calls.role(i) == "module" for i in event.args[0].insts()):
            if not isinstance(event.frame.owner, Inst) or facts.trace.root(event.frame.owner) is not model.inst:
                return f"{where} replaces a layer while it trains, which DDP's buckets do not follow"
    return ""


def _touches(facts: Facts, event: Event, inst: Inst) -> bool:
    if any(t.of is inst for t in event.value.tags if t.kind == "param"):
        return True
    return any(facts.trace.root(i) is inst for i in event.value.insts() if calls.role(i) == "module")


def differentiated_by_hand(facts: Facts, model: Model) -> str:
    """Where gradients of parameters are taken outside ``backward``, '' if nowhere."""
    for event in facts.trace.named("torch.autograd.grad"):
        targets = event.argument(1, "inputs")
        if targets is not None and any(t.kind == "param" and t.of is model.inst for t in combined(targets).tags):
            return f"{event.source.name}:{event.source.line(event.node)} differentiates by torch.autograd.grad, whose result DDP does not reduce"
    return ""


def unused_part(facts: Facts, model: Model) -> str:
    """A part with parameters that no forward reads, so that DDP would wait for its gradient; '' if none."""
    for part in facts.parts(model.inst):
        if isinstance(part.cls, str) or not any(part is i for i in facts.trace.called):
            continue
        for name, value in part.attrs.items():
            if (part, name) in facts.trace.read or name == "[]":
                continue
            if any(calls.role(i) == "module" and facts.has_parameters(i) for i in value.insts()):
                return f"{part.qualified}.{name} is never used in forward"
    idle = _idle_head(facts, model)
    if idle:
        return idle
    for event in facts.trace.of_kind("branch"):
        owner = event.frame.owner
        drawn_here = [t for t in event.value.tags if t.kind == "draw" and t.at in event.source.parents and event.source.function(t.at) is event.frame.node]
        if isinstance(owner, Inst) and drawn_here and facts.trace.root(owner) is model.inst:
            return f"{event.source.name}:{event.source.line(event.node)} skips layers at random"
    return ""


def _idle_head(facts: Facts, model: Model) -> str:
    """A part whose output takes no part in one of the losses; '' if none."""
    live = {e.node: e for e in model.live}
    for backward in facts.backwards:
        loss = facts.loss_of(backward)
        events = [live[t.at] for t in loss.tags if t.kind == "grad" and t.of is model.inst and t.at in live]
        used = {t.of for t in loss.tags if t.kind == "through"}
        for event in events:
            made = {t.of for t in deep_tags(event.result, 2) if t.kind == "through" and isinstance(t.of, Inst) and facts.trace.root(t.of) is model.inst}
            for part in sorted((p for p in made - used if isinstance(p, Inst) and facts.has_parameters(p)), key=lambda p: p.order):
                names = [n for n, v in model.inst.attrs.items() if part in v.objs]
                return f"{model.name}.{names[0] if names else part.qualified} takes no part in the loss of line {backward.source.line(backward.node)}"
    return ""


# ---- where does the wrapper go? ------------------------------------------------------------------------------------


def _place(facts: Facts, group: Sync) -> str:
    if group.storage is None:
        return "the variable that keeps it could not be followed to one place"
    reason = _anchor(facts, group)
    return reason or _replacements(facts, group)


def structural(facts: Facts, group: Sync) -> list[Event]:
    """What changes the models of a group as wholes: moves, loads, initialises, freezes or replaces parts of them."""
    insts = [m.inst for m in group.models]
    found = []
    for event in facts.trace.events:
        if event.kind not in {"call", "setattr", "setitem"} or not any(_touches(facts, event, i) for i in insts):
            if not (event.kind == "call" and event.name.startswith("torch.nn.init.")):
                continue
        owner = event.frame.owner
        if isinstance(owner, Inst) and any(facts.trace.root(owner) is i for i in insts):
            continue
        short = event.name.rpartition(".")[2]
        if event.kind == "call" and not (short in api.STRUCTURAL_METHODS or event.name in calls._SAME_OBJECT):
            continue
        if event.kind == "setattr" and event.name == "grad":
            continue
        found.append(event)
    return found


def _anchor(facts: Facts, group: Sync) -> str:
    storage = group.storage
    assert storage is not None
    first = min((e for m in group.models for e in m.live), key=lambda e: e.order)
    targets = [
        (node, frame)
        for m in group.models
        for node, frame in facts.trace.assigned.get(m.inst, [])
        if is_storage(node, frame, storage)
    ]
    if not targets:
        return "no assignment of it was found"
    function = targets[-1][1].node
    source = targets[-1][1].source
    nodes: list[cst.CSTNode] = [n for n, f in targets if f.node is function]
    for event in structural(facts, group):
        if event.order < first.order or event.name.startswith("module.requires"):
            at = facts.within(event, function)
            if at is not None:
                nodes.append(at)
    goal = facts.within(first, function)
    suite = common_suite(source, nodes[:] + ([goal] if goal is not None else []))
    if suite is None:
        return "its assignments share no block"
    end = statement_in(source, suite, goal) if goal is not None else None
    body = list(suite.body)
    placed = [s for n in nodes if (s := statement_in(source, suite, n)) is not None]
    limit = body.index(end) if end is not None else len(body)
    before = [s for s in placed if body.index(s) < limit]
    if not before:
        return "it is built in the same statement that trains it"
    group.anchor = max(before, key=body.index)
    group.anchor_source = source
    group.anchor_frame = targets[-1][1]
    return ""


def is_storage(node: cst.CSTNode, frame: Frame, storage: Storage) -> bool:
    """Whether an assignment fills a storage."""
    if storage.kind == "var":
        owner = storage.owner
        return isinstance(node, cst.Name) and node.value == storage.name and (
            frame.node is owner or (isinstance(owner, cst.Module) and frame.source is storage.source)
        )
    return isinstance(node, cst.Attribute) and node.attr.value == storage.name and isinstance(frame.node, cst.FunctionDef)


def _replacements(facts: Facts, group: Sync) -> str:
    idle = {e.node for m in group.models for e in m.idle if not e.grad}
    done: set[cst.CSTNode] = set()
    for model in group.models:
        for event in model.live:
            assert isinstance(event.node, cst.Call)
            reason = _follow(facts, group, event.source, event.node.func, event.frame, event.node in idle, done)
            if reason:
                return reason
    return ""


def _follow(
    facts: Facts, group: Sync, source: Source, node: cst.BaseExpression, frame: Frame, both: bool, done: set[cst.CSTNode]
) -> str:
    if node in done:
        return ""
    done.add(node)
    if isinstance(node, cst.Name):
        scope = frame.scope
        while scope is not None and node.value not in scope.vars:
            scope = scope.parent  # type: ignore[assignment]
        if scope is not None and node.value in parameters(scope.node):
            return _follow_parameter(facts, group, scope.node, source, node.value, done)
    group.replacements.append(Replacement(source, node, both))
    return ""


def _follow_parameter(
    facts: Facts, group: Sync, function: cst.CSTNode, source: Source, name: str, done: set[cst.CSTNode]
) -> str:
    raw_calls = trained = False
    for active in facts.called_from(function):
        arg = argument_for(active.call, function, name)
        if arg is None or active.caller is None:
            return "it is passed on in a way that could not be followed"
        if not _trains(facts, group, active):
            raw_calls = True
            continue
        trained = True
        reason = _follow(facts, group, active.caller.source, arg.value, active.caller, False, done)
        if reason:
            return reason
    if not trained:
        return "the call that trains it could not be told from the others"
    exposed = _exposed(facts, source, function, name, done)
    if exposed and raw_calls:
        return "one function uses it both wrapped and bare"
    group.unwrapped += [(source, n) for n in exposed]
    return ""


def _trains(facts: Facts, group: Sync, frame: Frame) -> bool:
    """Whether an activation runs a training forward of the group's models (for a repeated call: whether its first one did)."""
    live = {e.node for m in group.models for e in m.live}
    insts = {m.inst for m in group.models}
    training = [e for e in facts.trace.of_kind("forward") if e.node in live and e.grad and insts & set(e.value.insts())]
    names = parameters(frame.node)
    first = [f for f in facts.trace.frames if f.node is frame.node and f.grad == frame.grad]
    same = [frame] if frame in first else [f for f in first if all(f.arguments.get(n) == frame.arguments.get(n) for n in names)]
    return any(f in e.frame.stack() for e in training for f in same)


def _exposed(facts: Facts, source: Source, function: cst.CSTNode, name: str, done: set[cst.CSTNode]) -> list[cst.BaseExpression]:
    """Uses of a parameter inside a function that need the bare module instead of the wrapper."""
    from scaffold.source.tree import walk

    body = function.body  # type: ignore[attr-defined]
    found: list[cst.BaseExpression] = []
    for node in walk(body):
        if not isinstance(node, cst.Name) or node.value != name or node in done:
            continue
        parent = source.parents[node]
        if isinstance(parent, cst.Attribute) and parent.value is node:
            if parent.attr.value not in SAFE_ON_WRAPPER:
                found.append(node)
        elif isinstance(parent, cst.Attribute) or (isinstance(parent, cst.Arg) and parent.keyword is node):
            continue
        elif isinstance(parent, (cst.AssignTarget, cst.Param)):
            continue
        elif isinstance(parent, cst.Call) and parent.func is node:
            if _is_idle_call(facts, parent):
                found.append(node)
        else:
            found.append(node)
    return found


def _is_idle_call(facts: Facts, call: cst.Call) -> bool:
    return not any(e.node is call and e.kind == "forward" for m in facts.models for e in m.live)
