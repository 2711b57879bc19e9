"""Batches made without a DataLoader: drawn indices, and slices at the offsets of a ``range``."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from scaffold.plan.steps import ends
from scaffold.roles import api, calls
from scaffold.roles.facts import Facts
from scaffold.roles.trace import Event
from scaffold.roles.values import Inst, Seq
from scaffold.source.tree import Source


def data_draws(facts: Facts) -> list[Event]:
    """The draws that make training batches, when no loader and no range does (beside a loader a draw is noise)."""
    if facts.fed_by_loops:
        return []
    drawn = {d for d in facts.train_data if isinstance(d, cst.CSTNode)}
    found: dict[cst.CSTNode, Event] = {}
    for event in facts.trace.of_kind("call", "draw"):
        if event.node in drawn:
            found.setdefault(event.node, event)
    events = list(found.values())
    index = [e for e in events if e.name in api.INDEX_DRAWS or e.kind == "draw"]
    return index or events


def deciding_draws(facts: Facts) -> set[str]:
    """Names of the draws that decide a branch: made beside it while training, or behind an evaluation that steers."""
    loops = {x.node for e in facts.backwards for x in e.loops}
    drawn = {e.node: e for e in facts.trace.of_kind("call") if any(x.node in loops for x in e.loops)}
    found: set[str] = set()
    for event in facts.trace.of_kind("branch"):
        if not any(x.node in loops for x in event.loops):
            continue
        for tag in event.value.tags:
            draw = drawn.get(tag.at) if tag.kind == "draw" and tag.at is not None else None
            if draw is None:
                continue
            beside = draw.source is event.source and draw.source.function(draw.node) is event.source.function(event.node)
            steering = not draw.grad and not (isinstance(event.frame.owner, Inst) and calls.role(event.frame.owner) == "module")
            if beside or steering:
                found.add(str(tag.of))
    return found


def splits(facts: Facts) -> list[Inst]:
    """The ``x.split(size)`` that cut training batches, each call once."""
    found = [d for d in facts.train_data if isinstance(d, Inst) and d.qualified == "torch.split"]
    return list({d.call: d for d in found}.values())


def batch_dimension(facts: Facts, call: cst.Call | cst.ListComp, name: str) -> cst.BaseExpression | None:
    """The expression that says how many rows a draw makes."""
    if isinstance(call, cst.ListComp):
        bounds = call.for_in.iter
        return bounds.args[0].value if isinstance(bounds, cst.Call) and len(bounds.args) == 1 else None
    keywords = {a.keyword.value: a.value for a in call.args if a.keyword is not None}
    positional = [a.value for a in call.args if a.keyword is None and not a.star]
    if name in {"random.sample", "random.choices"}:
        return keywords.get("k") or (positional[1] if name == "random.sample" and len(positional) > 1 else None)
    if name in {"numpy.random.choice", "torch.multinomial"}:
        size = keywords.get("size") or keywords.get("num_samples") or (positional[1] if len(positional) > 1 else None)
    elif name == "torch.randint":
        size = keywords.get("size") or (positional[-1] if positional and isinstance(positional[-1], (cst.Tuple, cst.List)) else None)
    elif name.startswith("numpy.random.r") and name.endswith("randint"):
        size = keywords.get("size") or (positional[2] if len(positional) > 2 else None)
    elif name in {"torch.randn", "torch.rand", "numpy.random.randn", "numpy.random.rand"}:
        size = keywords.get("size") or (positional[0] if positional else None)
    elif name in {"torch.normal", "numpy.random.normal", "numpy.random.uniform"}:
        size = keywords.get("size") or (positional[2] if len(positional) > 2 else None)
    else:
        return None
    if isinstance(size, (cst.Tuple, cst.List)):
        return size.elements[0].value if size.elements else None
    if size is not None and any(isinstance(o, Seq) for o in facts.trace.value(size).objs):
        return None
    return size


@dataclass
class Slicing:
    """A ``range`` whose offsets cut training batches: its stop, and the slices and single indices taken at them.

    ``counted``: the stop is a number of steps that was divided where it is computed (SC219).
    """

    source: Source
    stop: cst.BaseExpression
    slices: list[tuple[Source, cst.Subscript]] = field(default_factory=list)
    indices: list[tuple[Source, cst.BaseExpression]] = field(default_factory=list)
    problem: tuple[Source, cst.CSTNode] | None = None
    counted: bool = False


def range_slices(facts: Facts) -> list[Slicing]:
    """Every training range with the subscripts that depend on its offsets."""
    found: dict[cst.CSTNode, Slicing] = {}
    for inst in facts.divided_ranges:
        if inst.call is None or inst.source is None:
            continue
        call = inst.call
        stop = call.args[0 if len(call.args) == 1 else 1].value
        slicing = found.setdefault(call, Slicing(inst.source, stop))
        slicing.counted = slicing.counted or ends(facts, inst)
        for source in facts.project.sources:
            for node in source.nodes:
                if isinstance(node, cst.Subscript):
                    _classify(facts, source, node, inst, slicing)
        if not slicing.slices and not slicing.indices and slicing.problem is None:
            slicing.problem = (inst.source, call)
    seen: set[cst.CSTNode] = set()
    for slicing in found.values():
        slicing.slices = [s for s in slicing.slices if s[1] not in seen and not seen.add(s[1])]  # type: ignore[func-returns-value]
        slicing.indices = [s for s in slicing.indices if s[1] not in seen and not seen.add(s[1])]  # type: ignore[func-returns-value]
    return list(found.values())


def _classify(facts: Facts, source: Source, node: cst.Subscript, inst: Inst, slicing: Slicing) -> None:
    if _is_target(source, node) or not any(t.of is inst and t.kind == "rows" for t in facts.trace.value(node).tags):
        return
    for position, element in enumerate(node.slice):
        part = element.slice
        if isinstance(part, cst.Slice):
            if not any(b is not None and _offset(facts, b, inst) for b in (part.lower, part.upper)):
                continue
            if position or part.step is not None or (part.lower is not None and not _offset(facts, part.lower, inst)):
                slicing.problem = (source, node)
            else:
                slicing.slices.append((source, node))
        elif isinstance(part, cst.Index) and _offset(facts, part.value, inst):
            if position:
                slicing.problem = (source, node)
            else:
                slicing.indices.append((source, part.value))


def _offset(facts: Facts, node: cst.BaseExpression, inst: Inst) -> bool:
    tags = facts.trace.value(node).tags
    return any(t.kind == "offset" and t.of is inst for t in tags) and not any(t.kind == "rows" and t.of is inst for t in tags)


def _is_target(source: Source, node: cst.CSTNode) -> bool:
    return isinstance(source.parents[node], (cst.AssignTarget, cst.AugAssign))
