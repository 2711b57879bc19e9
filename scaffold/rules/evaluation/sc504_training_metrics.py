"""Show the whole batch's numbers: reduce what each rank measured on its share.

A loss, an accuracy or a count that one rank accumulates over its part of the data is not the script's number any more: sums are 1/N of
it, means are those of one share, ``i * batch_size`` counts one rank's samples. Means are averaged and sums added over the ranks, once
behind the loop, or just before they are shown inside it. The collective is never inside a rank guard.

Before::

    for x, y in loader:
        total += loss.item()
    print(total / len(loader))

After::

    for x, y in loader:
        total += loss.item()
    total = all_reduce_mean(total)
    if rank == 0:
        print(total / len(loader))

Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_reduce
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.carried import carried, local_kinds
from scaffold.plan.locals import CLEAN, parts
from scaffold.plan.outputs import outputs
from scaffold.plan.regions import behind, divided_loops, inside
from scaffold.roles.facts import StepLoop
from scaffold.rules import Diagnostic
from scaffold.rules.reduce import at_loop_end, before_statement, in_place
from scaffold.source.edits import Author
from scaffold.source.tree import Source

ID = "SC504"
NAME = "training-metrics"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Reduce accumulated values behind loops over divided data, and shown values inside them."""
    loops = divided_loops(plan.facts, plan.sharded)
    nodes = {x.node for x in loops}
    fixed: set[cst.CSTNode] = set()
    for loop in loops:
        yield from _leaving(plan, author, loop, fixed)
    shown = [o for o in outputs(plan.facts) if o.kind in {"print", "log", "bar-text", "writer", "tracker", "file", "save", "write"}]
    during = {e.node for e in plan.facts.trace.events if inside(e, nodes)}
    for output in shown:
        if output.node in during:
            yield from _shown(plan, author, output.source, output.node, output.kind)
    yield from _read_behind(plan, author, loops, nodes, fixed)


def _leaving(plan: Plan, author: Author, loop: StepLoop, fixed: set[cst.CSTNode]) -> Iterable[Diagnostic]:
    for item in carried(plan.facts, loop.source, loop.node, plan.sharded):
        kinds = item.kinds - {"rows"} if item.kinds != {"rows"} else item.kinds
        if len(kinds) == 1 and kinds <= CLEAN:
            fixed.update(item.loads)
            if item.reset:
                at_loop_end(plan, author, loop.source, loop.node, item.name, kinds.pop())
            else:
                yield from _unreset(plan, author, loop, item.name, item.loads)
        elif kinds == {"rows"}:
            continue
        else:
            yield Diagnostic.at(
                ID, "warning", loop.source, item.loads[0],
                f"{item.name} is a {'ratio of sums' if kinds == {'ratio'} else 'combination'} over this rank's share of the data, which no single reduction makes global",
                "accumulate its numerator and denominator as sums, and divide after the loop",
            )  # fmt: skip


def _unreset(plan: Plan, author: Author, loop: StepLoop, name: str, loads: list[cst.Name]) -> Iterable[Diagnostic]:
    """A running value that goes on growing: reduce each reading of it, never the variable."""
    for load in loads:
        kinds = local_kinds(plan.facts, load, plan.sharded)
        if len(kinds) == 1 and kinds <= CLEAN:
            part = parts(plan.facts, loop.source, load, plan.sharded)
            for piece in part:
                _reduce(plan, author, loop.source, piece)
    return
    yield


def _shown(plan: Plan, author: Author, source: Source, node: cst.Call, kind: str) -> Iterable[Diagnostic]:
    statement = source.statement(node)
    reads = [*node.args, *([node.func.value] if isinstance(node.func, cst.Attribute) and not isinstance(node.func.value, cst.Name) else [])]
    for arg in reads:
        for part in parts(plan.facts, source, arg.value if isinstance(arg, cst.Arg) else arg, plan.sharded):
            if part.clean:
                before_statement(plan, author, source, statement, part)
            elif part.kind != "rows" and kind not in {"save", "file"}:
                yield Diagnostic.at(
                    ID, "warning", source, part.node, f"{source.code(part.node)!r} is shown as rank 0 sees it: its share of the batch only",
                    "compute it from sums over the batch",
                )  # fmt: skip


def _read_behind(
    plan: Plan, author: Author, loops: list[StepLoop], nodes: set[cst.CSTNode], fixed: set[cst.CSTNode]
) -> Iterable[Diagnostic]:
    """State kept in objects or lists while the loop ran, read after it."""
    done: set[cst.CSTNode] = set()
    for loop in loops:
        for place in behind(plan.facts, loop):
            skip = {n for n in place.nodes if any(a in nodes for a in place.source.ancestors(n))}
            for node in place.nodes:
                if node in done or node in skip or not isinstance(node, (cst.Attribute, cst.Call)):
                    continue
                kinds = local_kinds(plan.facts, node, plan.sharded)
                if len(kinds) != 1 or not kinds <= CLEAN or not _is_source(plan, node) or _within_done(place.source, node, done):
                    continue
                if any(e.node is node and e.kind == "call" and e.name.endswith(("()", "enter")) for e in ()):
                    continue
                done.add(node)
                part = parts(plan.facts, place.source, node, plan.sharded, frozenset(fixed))
                for piece in part:
                    _reduce(plan, author, place.source, piece)
    return
    yield


def _is_source(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether locality begins at this node: it reads an object or list that the loop filled, nothing under it is local."""
    if isinstance(node, cst.Attribute):
        owner = plan.facts.trace.value(node.value)
        return bool(owner.insts()) and not local_kinds(plan.facts, node.value, plan.sharded)
    assert isinstance(node, cst.Call)
    if any(local_kinds(plan.facts, a.value, plan.sharded) for a in node.args):
        return False
    from scaffold.roles.values import Ext

    callee = plan.facts.trace.value(node.func)
    if not any(isinstance(o, Ext) and (o.name in {"sum"} or o.name.startswith(("numpy.", "statistics.", "torch."))) for o in callee.objs):
        return False
    return True


def _within_done(source: Source, node: cst.CSTNode, done: set[cst.CSTNode]) -> bool:
    return any(a in done for a in source.ancestors(node))


def _reduce(plan: Plan, author: Author, source: Source, piece: object) -> None:
    """In place, or in a line of its own where the statement will run on one rank only."""
    from scaffold.plan.locals import Part

    assert isinstance(piece, Part)
    statement = source.statement(piece.node)
    shown = {o.node for o in outputs(plan.facts)}
    if any(n in shown for n in [piece.node, *source.ancestors(piece.node)]):
        before_statement(plan, author, source, statement, piece)
    else:
        in_place(plan, author, source, piece)
