"""Average gradients by hand where DDP's hooks would miss them.

DDP synchronises only what passes through the wrapper's ``forward``, once per forward. A loss built by another method, a
second ``backward`` over one forward, layers thawed while training, or a part that is called on its own are not synchronised,
without any error: the ranks drift apart. For those models the gradients are averaged just before the optimizer uses them; the result is
that of one process with the global batch.

Before::

    model.loss(x).backward()
    optimizer.step()

After::

    model.loss(x).backward()
    average_gradients(optimizer)
    optimizer.step()

Reference: https://docs.pytorch.org/docs/stable/notes/ddp.html#internal-design
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.places import statement_in, suites
from scaffold.plan.sync import Sync
from scaffold.roles.facts import Optimizer
from scaffold.rules import Diagnostic
from scaffold.rules.common import collective_device
from scaffold.source.edits import AFTER, HOIST, Author
from scaffold.source.tree import Source, Statement, walk

ID = "SC303"
NAME = "average-gradients"
SEVERITY = "W"

_READS = ("torch.nn.utils.clip_grad", "scaler.unscale_")


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Insert the averaging before each step of the optimizers of models that DDP does not fit."""
    for sync in plan.syncs:
        if sync.mode != "average":
            continue
        if not sync.optimizers:
            event = sync.models[0].live[0] if sync.models[0].live else plan.facts.backwards[0]
            yield Diagnostic.at(
                ID, "error", event.source, event.node,
                f"the gradients of {sync.models[0].name} are used by hand, and DDP does not fit because {sync.reason}",
                "let a torch.optim optimizer take the step",
            )  # fmt: skip
            continue
        for optimizer in sync.optimizers:
            yield from _average(plan, author, sync, optimizer)
    yield from _loose(plan, author)


def _loose(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Optimizers that step what no plan synchronises: free tensors, and modules whose calls could not be tied to a backward."""
    held = {o: s for s in plan.syncs for o in s.optimizers}
    synced = {m.inst for s in plan.syncs for m in s.models}
    run = {plan.facts.trace.root(i) for e in plan.facts.trace.of_kind("forward", "method") if e.grad for i in e.value.insts()}
    for optimizer in plan.facts.optimizers:
        missed = [m for m in optimizer.models if m not in synced and m in run and plan.facts.has_parameters(m)]
        if optimizer.steps and (optimizer not in held or missed and held[optimizer].mode == "ddp"):
            what = f"{missed[0].qualified}'s calls could not be tied to a backward" if missed else "its parameters belong to no module that could be followed"
            yield from _average(plan, author, Sync([], "average", what), optimizer)


def _average(plan: Plan, author: Author, sync: Sync, optimizer: Optimizer) -> Iterable[Diagnostic]:
    for event in optimizer.steps:
        source = event.source
        name = _helper(plan, author, source)
        expression = _optimizer_text(source, event.node, event.name)
        if expression is None:
            yield Diagnostic.at(ID, "error", source, event.node, "the optimizer that steps here has no name", "keep the optimizer in a variable")
            continue
        statement = _first_use(plan, source, event.node)
        author.before(source, statement, f"{name}({expression})", HOIST)
    yield from _same_start(plan, author, optimizer)
    where = optimizer.inst
    if where.source is not None and where.call is not None:
        yield Diagnostic.at(
            ID, "note", where.source, where.call, f"gradients are averaged by hand: {sync.reason}",
            "nothing; this trains the same, without overlapping communication and backward",
        )  # fmt: skip


def _optimizer_text(source: Source, node: cst.CSTNode, name: str) -> str | None:
    if not isinstance(node, cst.Call):
        return None
    if name == "scaler.step":
        return source.code(node.args[0].value) if node.args else None
    return source.code(node.func.value) if isinstance(node.func, cst.Attribute) else None


def _first_use(plan: Plan, source: Source, step: cst.CSTNode) -> cst.CSTNode:
    """The first statement after the backward that reads the gradients: clipping, unscaling, a hand-written update, or the step."""
    backwards = {e.node for e in plan.facts.backwards if e.node in source.parents}
    readers = {e.node for e in plan.facts.trace.of_kind("call") if e.name.startswith(_READS)}
    readers |= {n for n, v in plan.facts.trace.values.items() if isinstance(n, cst.Attribute) and n.attr.value == "grad"}
    first = source.statement(step)
    if (alone := _behind_backward(source, first, step, backwards, readers)) is not None:
        return alone
    for suite in suites(source, first):
        if isinstance(suite, cst.SimpleStatementSuite):
            continue
        body: list[cst.CSTNode] = list(suite.body)
        own = statement_in(source, suite, step)
        assert own is not None
        found = own if first is source.statement(step) else first
        for statement in reversed(body[: body.index(own) + 1]):
            if statement is not own and any(statement_in(source, suite, n) is statement for n in backwards):
                return found
            if any(statement_in(source, suite, n) is statement for n in readers if n in source.parents):
                found = statement  # type: ignore[assignment]
                first = found
        if isinstance(source.parents.get(suite), (cst.For, cst.While)):
            break
    return first


def _behind_backward(source: Source, line: cst.CSTNode, step: cst.CSTNode, backwards: set[cst.CSTNode], readers: set[cst.CSTNode]) -> cst.CSTNode | None:
    """On a line of several statements (``loss.backward(); optimizer.step()``), the first behind the backward that reads the gradients."""
    line = source.parents[line] if isinstance(source.parents[line], cst.SimpleStatementSuite) else line
    if not isinstance(line, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
        return None
    inside = [set(walk(small)) for small in line.body]
    behind = [i + 1 for i, nodes in enumerate(inside) if nodes & backwards]
    if not behind:
        return None
    return next((line.body[i] for i in range(behind[-1], len(inside)) if inside[i] & (readers | {step})), None)


def _same_start(plan: Plan, author: Author, optimizer: Optimizer) -> Iterable[Diagnostic]:
    """All ranks start from rank 0's parameters, as DDP would see to."""
    inst = optimizer.inst
    if inst.source is None or inst.call is None:
        return
    source = inst.source
    statement = source.statement(inst.call)
    target = _assigned_text(source, statement)
    if target is None:
        return
    author.after(source, statement, f"{_broadcast(plan, author, source)}({target})", AFTER)
    return
    yield


def _assigned_text(source: Source, statement: Statement) -> str | None:
    if isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Assign):
        target = statement.body[0].targets[0].target
        if isinstance(target, (cst.Name, cst.Attribute)):
            return source.code(target)
    return None


def _broadcast(plan: Plan, author: Author, source: Source) -> str:
    name = plan.free(source, "broadcast_parameters")
    dist = plan.dist(author, source)
    device = collective_device(plan, dist)
    value = f"parameter.data.to({device})" if device else "parameter.data"
    back = "\n            parameter.data.copy_(value)" if device else ""
    author.helper(
        source,
        name,
        f'''def {name}(optimizer):
    """Give an optimizer's parameters the values of rank 0."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            value = {value}
            {dist}.broadcast(value, src=0){back}
''',
    )
    return name


def _helper(plan: Plan, author: Author, source: Source) -> str:
    name = plan.free(source, "average_gradients")
    dist = plan.dist(author, source)
    author.helper(
        source,
        name,
        f'''def {name}(optimizer):
    """Average the gradients of an optimizer's parameters over all ranks."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                {dist}.all_reduce(parameter.grad)
                parameter.grad /= {dist}.get_world_size()
''',
    )
    return name
