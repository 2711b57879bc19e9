"""Where each trained model is sharded by ``fully_shard``, and by which blocks (``--strategy fsdp2``).

``fully_shard`` works in place and must come after the last change of the whole parameters (device, loaded weights, initialisation)
and before anything keeps them: the optimizer, lists of parameter groups, ``torch.compile``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from scaffold.plan.places import Storage, common_suite, statement_in
from scaffold.plan.sync import Sync, changed_while_training, differentiated_by_hand, disordered, group_models, is_storage, structural
from scaffold.roles import calls
from scaffold.roles.facts import Facts, Model, deep_tags
from scaffold.roles.trace import Event, Frame
from scaffold.roles.values import Bound, Class, Inst
from scaffold.source.tree import Source, Statement, Suite, children, walk

_STACKS = {
    "torch.nn.TransformerEncoder": ("layers",),
    "torch.nn.TransformerDecoder": ("layers",),
    "torch.nn.Transformer": ("encoder.layers", "decoder.layers"),
}
"""Library modules that hold a list of equal blocks."""

_LATE = {"load_state_dict", "compile"}
"""Changes that may follow the sharding: SC703 rewrites loads, and a sharded model compiles."""


@dataclass(eq=False)
class Sharding(Sync):
    """The plan for one model: ``blocks`` are paths from the model to its lists of blocks (``.layers``), ``methods`` run parameters outside ``forward``.

    ``anchor`` is the statement in front of which it is sharded; ``reason`` why it cannot be, with ``at`` the place.
    """

    blocks: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    library: bool = False
    at: tuple[Source, cst.CSTNode] | None = None

    @property
    def model(self) -> Model:
        """The model."""
        return self.models[0]


def plan_sharding(facts: Facts) -> list[Sharding]:
    """One plan for each place that keeps trained models."""
    return [_shard(facts, group) for group in group_models(facts)]


def _shard(facts: Facts, group: Sync) -> Sharding:
    plan = Sharding(group.models, mode="fsdp2", storage=group.storage)
    model = plan.model
    first = model.live[0] if model.live else None
    plan.at = (first.source, first.node) if first else None
    plan.reason = _unfit(facts, model) or (_anchor(facts, plan, group.storage) if group.storage else "the variable that keeps it could not be followed to one place")
    plan.library = isinstance(model.inst.cls, str) and model.inst.cls.startswith(("transformers.", "peft."))
    plan.blocks = _blocks(facts, model.inst)
    plan.methods = _methods(facts, model)
    return plan


def _unfit(facts: Facts, model: Model) -> str:
    if not model.live:
        return "no call of it could be tied to a backward"
    for event in model.live:
        if any(facts.trace.root(i) is not i for i in event.value.insts()):
            return f"{event.source.name}:{event.source.line(event.node)} calls a part of it on its own, outside the forward that gathers its parameters"
    for event in facts.trace.named("module.to"):
        if "memory_format" in event.kwargs and model.inst in event.value.insts():
            return f"{event.source.name}:{event.source.line(event.node)} gives its parameters another memory format, which fully_shard does not take"
    for event in facts.trace.named("copy.deepcopy", "torch.optim.swa_utils.AveragedModel"):
        if any(model.inst in a.objs for a in event.args) and not any(e.order < event.order for e in model.live):
            return f"{event.source.name}:{event.source.line(event.node)} copies it, and a sharded model cannot be copied (keep averages in a dictionary of tensors)"
    order = disordered(facts, model) or changed_while_training(facts, model) or differentiated_by_hand(facts, model)
    return _scalar(facts, model) or order.replace("DDP", "FSDP2")


def _scalar(facts: Facts, model: Model) -> str:
    """A parameter without a dimension, which cannot be divided; '' if there is none."""
    for part in facts.parts(model.inst):
        for name, value in part.attrs.items():
            for inst in value.insts():
                if inst.qualified == "torch.nn.Parameter" and inst.call is not None and inst.source is not None and inst.call.args and _is_scalar(inst.call.args[0].value):
                    return f"{inst.source.name}:{inst.source.line(inst.call)} makes {name} a parameter without a dimension, which fully_shard does not take"
    return ""


def _is_scalar(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.BinaryOperation):
        return _is_scalar(node.left) or _is_scalar(node.right)
    if not isinstance(node, cst.Call) or not node.args:
        return False
    short = node.func.attr.value if isinstance(node.func, cst.Attribute) else node.func.value if isinstance(node.func, cst.Name) else ""
    given = node.args[0].value
    if short in {"tensor", "as_tensor", "FloatTensor"}:
        return isinstance(given, (cst.Float, cst.Integer, cst.Call)) or (isinstance(given, cst.UnaryOperation) and isinstance(given.expression, (cst.Float, cst.Integer)))
    return short in {"zeros", "ones", "rand", "randn", "full", "empty"} and isinstance(given, (cst.List, cst.Tuple)) and not given.elements


def _anchor(facts: Facts, plan: Sharding, storage: Storage) -> str:
    model = plan.model
    targets = [(n, f) for n, f in facts.trace.assigned.get(model.inst, []) if is_storage(n, f, storage)]
    if not targets:
        return "no assignment of it was found"
    node, frame = targets[-1]
    suite, takers = _takers(facts, model, frame, [n for n, f in targets if f.node is frame.node])
    if suite is None:
        return "its assignments share no block"
    body = list(suite.body)
    limit = min((body.index(s) for s in takers), default=len(body))
    if limit == len(body):
        return "no optimizer was found that takes its parameters"
    changes = [(s, e) for e in structural(facts, plan) if (at := facts.within(e, frame.node)) is not None and (s := statement_in(frame.source, suite, at)) is not None]
    assigned = [s for n, f in targets if f.node is frame.node and (s := statement_in(frame.source, suite, n)) is not None]
    before = [s for s in (*assigned, *(s for s, _ in changes)) if body.index(s) < limit]
    if not before:
        return "it is built in the statement that gives its parameters to the optimizer"
    late = [e for s, e in changes if body.index(s) >= limit and e.name.rpartition(".")[2] not in _LATE and e.order < model.live[0].order]
    if late:
        plan.at = (late[0].source, late[0].node)
        return f"{late[0].source.name}:{late[0].source.line(late[0].node)} changes it after its parameters are taken at line {frame.source.line(body[limit])}"
    plan.anchor, plan.anchor_source, plan.anchor_frame = min(takers, key=body.index), frame.source, frame
    return ""


def _takers(facts: Facts, model: Model, frame: Frame, assigned: list[cst.CSTNode]) -> tuple[Suite | None, list[Statement]]:
    """The block in which a model is assigned, and its statements that keep its parameters or compile it."""
    events = [e for e in facts.trace.of_kind("call") if _takes(facts, e, model.inst)]
    nodes = [n for e in events if (n := facts.within(e, frame.node)) is not None]
    suite = common_suite(frame.source, [*assigned, *nodes])
    if suite is None:
        return None, []
    found = [s for n in nodes if (s := statement_in(frame.source, suite, n)) is not None]
    found += [s for s in suite.body if _keeps_parameters(facts, s, model.inst)]  # type: ignore[misc]
    return suite, found


def _takes(facts: Facts, event: Event, model: Inst) -> bool:
    """Whether a call makes an optimizer of the model, compiles it, or collects its parameters in a list."""
    if any(calls.role(i) == "optimizer" and event.node is i.call for i in event.result.insts()):
        return any(model in o.models for o in facts.optimizers if o.inst in event.result.insts())
    if event.name == "torch.compile":
        return any(model in a.objs for a in event.args)
    return event.name in {"list.append", "list.extend"} and any(t.kind == "param" and t.of is model for a in event.args for t in deep_tags(a, 2))


def _keeps_parameters(facts: Facts, statement: cst.CSTNode, model: Inst) -> bool:
    for node in _own(statement):
        if isinstance(node, cst.AssignTarget) and isinstance(node.target, (cst.Name, cst.Attribute)):
            value = facts.trace.value(node.target)
            if not any(calls.role(i) for i in value.insts()) and any(t.kind == "param" and t.of is model for t in deep_tags(value, 3)):
                return True
    return False


def _own(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node and what is inside it, functions and classes left out."""
    if not isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
        yield node
        for child in children(node):
            yield from _own(child)


# ---- blocks and methods --------------------------------------------------------------------------------------------


def _blocks(facts: Facts, root: Inst) -> tuple[str, ...]:
    """Paths to the lists of repeated blocks, as the script would write them behind the model's name; inner lists of blocks left out."""
    found: list[str] = []
    stack: list[tuple[Inst, str]] = [(root, "")]
    while stack:
        part, path = stack.pop(0)
        if path and _is_stack(facts, part):
            found.append(path)
            continue
        found += [f"{path}.{inner}" for inner in _STACKS.get(part.qualified, ())]
        for child in sorted(facts.children(part), key=lambda i: i.order):
            names = [n for p, n in facts.trace.parents[child] if p is part]
            stack += [(child, f"{path}[{n}]" if n.isdecimal() else f"{path}.{n}") for n in names[:1] if n.isdecimal() or n.isidentifier()]
    return tuple(found)


def _is_stack(facts: Facts, part: Inst) -> bool:
    """Whether a container holds several blocks: modules of a class of the script, or of the library's transformer layers."""
    if part.qualified not in {"torch.nn.ModuleList", "torch.nn.Sequential"}:
        return False
    members = facts.children(part)
    blocks = [m for m in members if (isinstance(m.cls, Class) or m.qualified.endswith("Layer")) and facts.has_parameters(m)]
    return len(blocks) > 1 or any(_made_repeatedly(facts, m) for m in blocks)


def _made_repeatedly(facts: Facts, inst: Inst) -> bool:
    """Whether one place in the source makes several modules: in a comprehension, a loop, or a repetition."""
    if inst.call is None or inst.source is None:
        return False
    around = list(inst.source.ancestors(inst.call))
    function = inst.source.function(inst.call)
    inside = around[: around.index(function)] if function in around else around
    return any(isinstance(a, (cst.ListComp, cst.GeneratorExp, cst.For, cst.While)) for a in inside)


def _methods(facts: Facts, model: Model) -> tuple[str, ...]:
    """Methods called on the model that use its parts or parameters themselves, not through ``forward``."""
    found: dict[str, None] = {}
    for event in (*model.live, *model.idle):
        if event.kind != "method" or model.inst not in event.value.insts():
            continue
        if any(_uses_parts(facts, f.node, f.source, model.inst) for f in facts.trace.frames if f.call is event.node and f.owner is model.inst):
            found[event.name.rpartition(".")[2]] = None
    return tuple(found)


def _uses_parts(facts: Facts, function: cst.CSTNode, source: Source, model: Inst) -> bool:
    for node in walk(function):
        if isinstance(node, cst.Attribute) and node in source.parents:
            value = facts.trace.value(node)
            if any(calls.role(i) == "module" and i is not model and facts.has_parameters(i) for i in value.insts()):
                return True
            if any(i.qualified == "torch.nn.Parameter" for i in value.insts()):
                return True
    return False


_REDUCTIONS = {"norm", "sum", "mean", "max", "min", "amax", "amin", "std", "var", "prod", "any", "all", "vector_norm"}


def parameter_reductions(facts: Facts, sharded: set[Inst]) -> list[tuple[Source, cst.Call]]:
    """Norms, sums and means of sharded parameters or gradients that the script takes itself, the outermost of each chain."""
    found: list[tuple[Source, cst.Call]] = []
    for source in facts.project.sources:
        for node in source.nodes:
            if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _REDUCTIONS:
                method = _of_parameter(facts, node.func.value, sharded)
                if method or (len(node.args) > 0 and _of_parameter(facts, node.args[0].value, sharded)):
                    found.append((source, node))
    nodes = {call for _, call in found}
    return [(s, c) for s, c in found if not any(a in nodes for a in s.ancestors(c))]


def _of_parameter(facts: Facts, node: cst.BaseExpression, sharded: set[Inst]) -> bool:
    """Whether an expression is computed element by element from one sharded parameter."""
    while True:
        value = facts.trace.value(node)
        if any(t.kind == "param" and t.of in sharded for t in value.tags) and all(isinstance(o, Bound) for o in value.objs):
            return True
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            node = node.func.value
        elif isinstance(node, cst.Attribute):
            node = node.value
        else:
            return False
