"""Rows that a loop over divided data collects for later: predictions, labels, identifiers, counts of them."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from scaffold.plan.carried import carried, follows, own_nodes
from scaffold.plan.regions import inside
from scaffold.roles.facts import Facts, StepLoop, deep_tags
from scaffold.roles.trace import Event
from scaffold.roles.values import Inst, Seq, Val
from scaffold.source.tree import dotted, walk

_COUNTERS = {"collections.Counter"}
_JOINING = {"append", "concatenate", "hstack", "vstack", "cat", "concat", "r_", "union1d"}
_SIZES = {"len", "range", "enumerate", "bool", "any"}


@dataclass(frozen=True)
class Collected:
    """A variable (or attribute) that holds this rank's rows; ``kind`` is ``list``, ``array``, ``tensor`` or ``counter``."""

    name: str
    kind: str
    value: Val


def collected(facts: Facts, loop: StepLoop, data: set[object]) -> list[Collected]:
    """What a loop collected and its function reads behind it."""
    source = loop.source
    end = source.span(loop.node)[1]
    filled = _filled(facts, loop, data)
    joined = {c.name: _joining(facts, loop.node, c.name) for c in carried(facts, source, loop.node, data) if c.kinds == {"rows"} and c.loads}
    found: dict[str, Collected] = {}
    for node in own_nodes(source.function(loop.node)):
        if not isinstance(node, (cst.Name, cst.Attribute)) or source.span(node)[0] < end or not follows(source, loop.node, node):
            continue
        name, value = dotted(node), facts.trace.value(node)
        if name is None or name in found:
            continue
        if any(o in filled for o in value.objs):
            found[name] = Collected(name, "counter" if any(i.qualified in _COUNTERS for i in value.insts()) else "list", value)
        elif joined.get(name):
            found[name] = Collected(name, joined[name], value)
    return [c for c in found.values() if _set_before(facts, loop, c)]


def _filled(facts: Facts, loop: StepLoop, data: set[object]) -> set[object]:
    """The lists and counters that were given rows in a loop."""
    found: set[object] = set()
    for event in facts.trace.of_kind("call", "setitem"):
        if inside(event, {loop.node}) and _rows(event, data):
            found |= {o for o in event.value.objs if isinstance(o, Seq) or isinstance(o, Inst) and o.qualified in _COUNTERS}
    return found


def _rows(event: Event, data: set[object]) -> bool:
    short = event.name.rpartition(".")[2]
    if event.kind == "call" and short not in {"append", "extend", "update", "insert", "add"}:
        return False
    return any(t.kind == "rows" and t.of in data for a in event.args for t in deep_tags(a, 2))


def _joining(facts: Facts, loop: cst.CSTNode, name: str) -> str:
    """How an array is made longer in each round: ``x = np.append(x, y)``, ``x = torch.cat([x, y])``."""
    for node in walk(loop):
        if isinstance(node, cst.Assign) and isinstance(node.value, cst.Call) and any(dotted(t.target) == name for t in node.targets):
            called = dotted(node.value.func) or ""
            reads = any(isinstance(n, (cst.Name, cst.Attribute)) and dotted(n) == name for a in node.value.args for n in walk(a.value))
            if reads and called.rpartition(".")[2] in _JOINING:
                return "tensor" if called.endswith(("cat", "concat")) else "array"
    return ""


def _set_before(facts: Facts, loop: StepLoop, item: Collected) -> bool:
    """Whether the loop's function starts it afresh before the loop, so that it can be replaced behind it."""
    source = loop.source
    start = source.span(loop.node)[0]
    return any(
        isinstance(n, (cst.Assign, cst.AnnAssign))
        and source.span(n)[0] < start
        and item.name in {dotted(t.target) for t in n.targets} | {dotted(e.value) for t in n.targets if isinstance(t.target, cst.Tuple) for e in t.target.elements}
        for n in walk(source.function(loop.node))
        if isinstance(n, cst.Assign)
    )


def measured_only(facts: Facts, loop: StepLoop, name: str) -> bool:
    """Whether all that is read of it behind the loop is its length, or a sum or mean that is made global itself."""
    source = loop.source
    end = source.span(loop.node)[1]
    for node in own_nodes(source.function(loop.node)):
        if isinstance(node, (cst.Name, cst.Attribute)) and dotted(node) == name and source.span(node)[0] >= end and follows(source, loop.node, node):
            parent = source.parents[node]
            call = source.parents[parent] if isinstance(parent, cst.Arg) else None
            short = (dotted(call.func) or "").rpartition(".")[2] if isinstance(call, cst.Call) else ""
            if short not in _SIZES | {"mean", "sum", "average", "fmean"}:
                return False
    return True
