"""Objects that keep averages and are shown whole (``{meter}``, ``'{m.avg}'.format(m=meter)``), and lists: what enters them is made global."""

from __future__ import annotations

import libcst as cst

from scaffold.plan.locals import Part, parts
from scaffold.plan.outputs import outputs
from scaffold.plan.regions import inside
from scaffold.roles.facts import Facts
from scaffold.roles.values import Class, Inst, Map, Seq, Val
from scaffold.source.tree import Source, walk

_SHOWING = {"?.format", "str", "repr", "print", "logger.info", "logging.info", "list.format"}


def shown_meters(facts: Facts, data: set[object]) -> list[tuple[Source, Part]]:
    """The numbers of this rank that are handed to a meter which is later shown as an object."""
    meters = {i for v in _shown(facts) for i in _objects(v) if isinstance(i.cls, Class) and _keeps_local(i, data)}
    found: dict[cst.CSTNode, tuple[Source, Part]] = {}
    frames = [*facts.trace.frames, *(f for more in facts.trace.aliases.values() for f in more)]
    for frame in frames:
        call = frame.call
        if frame.owner not in meters or frame.caller is None or not isinstance(call, cst.Call) or call.func is None:
            continue
        source = frame.caller.source
        if frame.owner in _objects(facts.trace.value(call.func)) or call not in source.parents:
            continue
        given = [p for a in call.args for p in parts(facts, source, a.value, data)]
        if given and all(p.clean for p in given):
            found.update({p.node: (source, p) for p in given})
    return list(found.values())


def shown_curves(facts: Facts, data: set[object], loops: set[cst.CSTNode]) -> list[tuple[Source, Part]]:
    """The numbers that a loop over divided data collects in a list, if it shows them before it ends or they are saved as they are."""
    kinds: dict[cst.CSTNode, str] = {o.node: o.kind for o in outputs(facts)}
    telling = [e for e in facts.trace.of_kind("call") if e.node in kinds and (inside(e, loops) or kinds[e.node] in {"save", "file", "write"})]
    shown = {o for e in telling for n in walk(e.node) for o in _lists(facts.trace.value(n))}
    found: dict[cst.CSTNode, tuple[Source, Part]] = {}
    for event in facts.trace.named("list.append"):
        if isinstance(event.node, cst.Call) and event.node.args and inside(event, loops) and any(o in shown for o in event.value.objs):
            given = parts(facts, event.source, event.node.args[0].value, data)
            if given and all(p.clean and not facts.trace.value(p.node).tagged("grad") for p in given):
                found.update({p.node: (event.source, p) for p in given})
    return list(found.values())


def _lists(value: Val, depth: int = 2) -> list[Seq]:
    """The lists that a value is, or holds in a dictionary."""
    found = [o for o in value.objs if isinstance(o, Seq)]
    if depth:
        found += [s for o in value.objs if isinstance(o, Map) for v in o.items.values() for s in _lists(v, depth - 1)]
    return found


def _shown(facts: Facts) -> list[Val]:
    values = [v for e in facts.trace.of_kind("call") if e.name in _SHOWING for v in (*e.args, *e.kwargs.values())]
    for source in facts.project.sources:
        for node in source.nodes:
            if isinstance(node, cst.FormattedStringExpression):
                values.append(facts.trace.value(node.expression))
            elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
                values.append(facts.trace.value(node.right))
    return values


def _objects(value: Val) -> list[Inst]:
    found = value.insts()
    for obj in value.objs:
        if isinstance(obj, Seq):
            found += [i for v in (*obj.items, obj.rest) if v is not None for i in v.insts()]
    return found


def _keeps_local(inst: Inst, data: set[object]) -> bool:
    return any(t.of in data for v in inst.attrs.values() for t in v.locals())
