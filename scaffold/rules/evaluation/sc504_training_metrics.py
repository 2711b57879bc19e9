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
from dataclasses import dataclass

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.carried import Carried, carried, local_kinds
from scaffold.plan.locals import CLEAN, Part, made_of, parts, sharing
from scaffold.plan.outputs import outputs
from scaffold.plan.regions import behind, divided_loops, inside
from scaffold.roles.facts import StepLoop, deep_tags
from scaffold.roles.values import LOCAL, Class, Ext, Inst, Obj, Seq
from scaffold.rules import Diagnostic
from scaffold.rules.reduce import at_loop_end, before_statement, in_place
from scaffold.source.edits import Author
from scaffold.source.tree import Source, walk

ID = "SC504"
NAME = "training-metrics"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Reduce accumulated values behind loops over divided data, and shown values inside them."""
    loops = divided_loops(plan.facts, plan.sharded)
    nodes: set[cst.CSTNode] = {x.node for x in loops}
    for loop in loops:
        for name, kind in plan.reductions.get(loop.node, {}).items():
            if kind in {"sum", "count"} and plan.partly_divided.get(loop.node) == "":
                yield _either(loop, name)
            elif kind:
                at_loop_end(plan, author, loop.source, loop.node, name, kind)
        yield from _leaving(plan, author, loop)
    for source, part in plan.each_step:
        in_place(plan, author, source, part)
    shown = [o for o in outputs(plan.facts) if o.kind in {"print", "log", "bar-text", "writer", "tracker", "file", "save", "write"}]
    during = {e.node for e in plan.facts.trace.events if inside(e, nodes)}
    for output in shown:
        if output.node in during:
            yield from _shown(plan, author, output.source, output.node, output.kind)
    read = _read_behind(plan, author, loops, nodes)
    _appended(plan, author, nodes, read)


def _leaving(plan: Plan, author: Author, loop: StepLoop) -> Iterable[Diagnostic]:
    """What leaves a loop and was not made global right behind it."""
    for item in carried(plan.facts, loop.source, loop.node, plan.sharded):
        if item.kind in {"sum", "count"} and loop.node in plan.partly_divided and not (item.reset and plan.partly_divided[loop.node]):
            yield _either(loop, item.name)
        elif item.kind:
            _each_reading(plan, author, loop, item)
        elif item.kinds != {"rows"}:
            ratio = item.kinds - {"rows"} == {"ratio"}
            yield Diagnostic.at(
                ID, "warning", loop.source, item.loads[0],
                f"{item.name} is a {'ratio of sums' if ratio else 'combination'} over this rank's share of the data, which no single reduction makes global",
                "accumulate its numerator and denominator as sums, and divide after the loop",
            )  # fmt: skip


def _either(loop: StepLoop, name: str) -> Diagnostic:
    return Diagnostic.at(
        ID, "error", loop.source, loop.node, f"this loop reads divided data in one call and whole data in another, and the total {name} is right for one of them only",
        "read the two by loops of their own, or pass the loader to the function that holds the loop",
    )  # fmt: skip


def _each_reading(plan: Plan, author: Author, loop: StepLoop, item: Carried) -> None:
    """A running value that goes on growing: reduce each reading of it, never the variable."""
    for load in item.loads:
        for piece in parts(plan.facts, loop.source, load, plan.sharded):
            _reduce(plan, author, loop.source, piece)


def _shown(plan: Plan, author: Author, source: Source, node: cst.Call, kind: str) -> Iterable[Diagnostic]:
    statement = source.statement(node)
    reads = [*node.args, *([node.func.value] if isinstance(node.func, cst.Attribute) and not isinstance(node.func.value, cst.Name) else [])]
    found = [p for a in reads for p in parts(plan.facts, source, a.value if isinstance(a, cst.Arg) else a, plan.sharded)]
    for part in sharing(plan.facts, source, found, plan.sharded):
        if part.clean:
            before_statement(plan, author, source, statement, part)
        elif part.kind != "rows" and (origins := made_of(plan.facts, source, part.node, plan.sharded)) is not None:
            for place, origin in origins:
                in_place(plan, author, place, origin)
        elif part.kind != "rows" and kind not in {"save", "file"}:
            yield Diagnostic.at(
                ID, "warning", source, part.node, f"{source.code(part.node)!r} is shown as rank 0 sees it: its share of the batch only",
                "compute it from sums over the batch",
            )  # fmt: skip


def _appended(plan: Plan, author: Author, nodes: set[cst.CSTNode], reduced: set[Seq]) -> None:
    """Numbers that a loop collects in a list for later (a curve to plot) are made global as they are collected."""
    done: set[cst.CSTNode] = set()
    for event in plan.facts.trace.named("list.append"):
        if event.node in done or not inside(event, nodes) or not isinstance(event.node, cst.Call) or not event.node.args:
            continue
        if any(o in reduced or _made_in_loop(plan, o, nodes) for o in event.value.objs):
            continue
        done.add(event.node)
        found = parts(plan.facts, event.source, event.node.args[0].value, plan.sharded)
        if found and all(p.clean for p in found):
            for part in found:
                in_place(plan, author, event.source, part)


def _made_in_loop(plan: Plan, obj: Obj, nodes: set[cst.CSTNode]) -> bool:
    """Whether a list is a new one in each step: the parts of a loss, not a curve."""
    source = next((s for s in plan.facts.project.sources if obj.site in s.parents), None)
    if source is None or obj.site is None:
        return False
    maker = source.function(obj.site)
    called_inside = isinstance(maker, cst.FunctionDef) and any(
        any(_stands_in(plan, g.call, nodes) for g in f.stack()) for f in plan.facts.called_from(maker)
    )
    return called_inside or any(a in nodes for a in source.ancestors(obj.site))


def _stands_in(plan: Plan, call: cst.CSTNode | None, nodes: set[cst.CSTNode]) -> bool:
    """Whether a call stands in the body of one of the loops."""
    source = next((s for s in plan.facts.project.sources if call in s.parents), None)
    return call is not None and source is not None and any(a in nodes for a in source.ancestors(call))


def _read_behind(plan: Plan, author: Author, loops: list[StepLoop], nodes: set[cst.CSTNode]) -> set[Seq]:
    """State kept in objects or lists while the loop ran, read after it; gives back the lists that were reduced."""
    reduced: set[Seq] = set()
    done: set[cst.CSTNode] = set()
    kept = _kept_state(plan, nodes)
    for loop in loops:
        for place in behind(plan.facts, loop):
            skip = {n for n in place.nodes if any(a in nodes for a in place.source.ancestors(n))}
            for node in place.nodes:
                if node in done or node in skip or not isinstance(node, (cst.Attribute, cst.Call)) or isinstance(place.source.parents[node], (cst.AssignTarget, cst.Expr)):
                    continue
                kinds = local_kinds(plan.facts, node, plan.sharded)
                if len(kinds) != 1 or not kinds <= CLEAN or not _reads(plan, node, kept) or _within_done(place.source, node, done):
                    continue
                done.add(node)
                if isinstance(node, cst.Call):
                    reduced.update(o for a in node.args for o in plan.facts.trace.value(a.value).objs if isinstance(o, Seq))
                for piece in parts(plan.facts, place.source, node, plan.sharded):
                    _reduce(plan, author, place.source, piece)
    return reduced


@dataclass(frozen=True)
class _Kept:
    """State that loops over divided data fill: attributes by object and name, and sequences."""

    attributes: frozenset[tuple[Inst, str]]
    sequences: frozenset[Seq]


def _kept_state(plan: Plan, nodes: set[cst.CSTNode]) -> _Kept:
    attributes: set[tuple[Inst, str]] = set()
    sequences: set[Seq] = set()
    for event in plan.facts.trace.events:
        if not inside(event, nodes) or not any(t.of in plan.sharded and t.kind in LOCAL for a in event.args for t in deep_tags(a, 2)):
            continue
        if event.kind == "setattr":
            attributes.update((i, event.name) for i in event.value.insts())
        elif event.kind == "call" and event.name.startswith("list."):
            sequences.update(o for o in event.value.objs if isinstance(o, Seq))
    return _Kept(frozenset(attributes), frozenset(sequences))


def _reads(plan: Plan, node: cst.CSTNode, kept: _Kept) -> bool:
    """Whether a node reads what a loop kept: such an attribute, or a reduction of such a sequence."""
    if isinstance(node, cst.Attribute):
        insts = plan.facts.trace.value(node.value).insts()
        return any((i, node.attr.value) in kept.attributes or _getter_reads(i, node.attr.value, kept, is_property=True) for i in insts)
    assert isinstance(node, cst.Call)
    if isinstance(node.func, cst.Attribute) and not node.args:
        name = node.func.attr.value
        if any(_getter_reads(i, name, kept, is_property=False) for i in plan.facts.trace.value(node.func.value).insts()):
            return True
    read = [n for a in node.args for n in (walk(a.value) if isinstance(a.value, (cst.ListComp, cst.GeneratorExp)) else (a.value,))]
    objs = [o for n in read for o in plan.facts.trace.value(n).objs]
    return any(o in kept.sequences for o in objs) and any(isinstance(o, Ext) for o in plan.facts.trace.value(node.func).objs)


def _getter_reads(inst: Inst, name: str, kept: _Kept, is_property: bool) -> bool:
    """Whether a method that only computes something (``return self.total / self.count``) reads what a loop kept in its object."""
    func = inst.cls.method(name) if isinstance(inst.cls, Class) else None
    method = func.node if func is not None else None
    if not isinstance(method, cst.FunctionDef) or bool(method.decorators) != is_property or not method.params.params:
        return False
    inner = list(walk(method.body))
    if any(isinstance(n, (cst.For, cst.While, cst.Assign, cst.AugAssign, cst.Yield)) for n in inner):
        return False
    read = {n.attr.value for n in inner if isinstance(n, cst.Attribute) and isinstance(n.value, cst.Name) and n.value.value == method.params.params[0].name.value}
    return any((inst, name) in kept.attributes for name in read)


def _within_done(source: Source, node: cst.CSTNode, done: set[cst.CSTNode]) -> bool:
    return any(a in done for a in source.ancestors(node))


def _reduce(plan: Plan, author: Author, source: Source, piece: Part) -> None:
    """In place, or in a line of its own where the statement will run on one rank only."""
    statement = source.statement(piece.node)
    shown = {o.node for o in outputs(plan.facts)}
    if any(n in shown for n in [piece.node, *source.ancestors(piece.node)]):
        before_statement(plan, author, source, statement, piece)
    else:
        in_place(plan, author, source, piece)
