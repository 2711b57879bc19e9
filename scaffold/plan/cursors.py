"""Batches cut at a position that the script moves on itself (``rows[self.i:self.i + n]; self.i += n``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import libcst as cst

from scaffold.plan.places import argument_for, parameters
from scaffold.roles.facts import Facts
from scaffold.roles.trace import Frame
from scaffold.source.tree import Source, dotted, walk

Place = tuple[Source, cst.BaseExpression]


@dataclass
class Cutting:
    """The slices at one cursor, the expressions that set their size, and what was not understood.

    ``leaves`` are the names in the slices themselves; a size that is not one of them comes from the call that makes the batches.
    """

    source: Source
    node: cst.CSTNode
    slices: list[tuple[Source, cst.Subscript]] = field(default_factory=list)
    sizes: list[Place] = field(default_factory=list)
    leaves: set[cst.CSTNode] = field(default_factory=set)
    problem: str = ""


@lru_cache(maxsize=8)
def cuttings(facts: Facts) -> tuple[Cutting, ...]:
    """Every cursor that cuts training batches."""
    found: dict[cst.CSTNode, Cutting] = {}
    for inst in facts.divided_cursors:
        assert inst.source is not None and inst.site is not None
        if inst.site not in found:
            found[inst.site] = _cutting(facts, Cutting(inst.source, inst.site))
    return tuple(found.values())


def _cutting(facts: Facts, cut: Cutting) -> Cutting:
    sizes: dict[cst.CSTNode, Place] = {}
    assert isinstance(cut.node, cst.AugAssign)
    _sizes(facts, cut.source, cut.node.value, cut, sizes)
    for source in facts.project.sources:
        for node in source.nodes:
            if not isinstance(node, cst.Subscript) or isinstance(source.parents[node], (cst.AssignTarget, cst.AugAssign)):
                continue
            bounds = [b for e in node.slice if isinstance(e.slice, cst.Slice) for b in (e.slice.lower, e.slice.upper) if b is not None]
            if not any(_moved(facts, b, cut.node) for b in bounds):
                continue
            first = node.slice[0].slice
            if not isinstance(first, cst.Slice) or first.step is not None or not any(_moved(facts, b, cut.node) for b in (first.lower, first.upper) if b is not None):
                cut.problem = f"{source.name}:{source.line(node)} cuts along another axis than the first"
            cut.slices.append((source, node))
            for bound in bounds:
                _sizes(facts, source, bound, cut, sizes)
    cut.sizes = list(sizes.values())
    if not cut.problem and not sizes:
        cut.problem = "what sets the size of the batch was not found"
    return cut


def _moved(facts: Facts, node: cst.BaseExpression, at: cst.CSTNode) -> bool:
    return any(t.kind == "cursor" and t.at is at for t in facts.trace.value(node).tags)


def _sizes(facts: Facts, source: Source, node: cst.CSTNode, cut: Cutting, found: dict[cst.CSTNode, Place]) -> None:
    """Collect the names (or numbers) that set the size of a batch in the bounds of a slice, at the place where they come from."""
    for leaf in walk(node):
        parent = source.parents[leaf]
        if isinstance(parent, cst.Attribute) or isinstance(parent, cst.Call) and parent.func is leaf or leaf in cut.leaves:
            continue
        cut.leaves.add(leaf)
        value = facts.trace.value(leaf)
        if isinstance(leaf, (cst.Name, cst.Attribute)) and value.tagged("cursor"):
            if isinstance(leaf, cst.Name):
                for definition in _assigned(source, leaf, leaf.value):
                    _sizes(facts, source, definition, cut, found)
        elif isinstance(leaf, (cst.Name, cst.Attribute)) and not value.tagged("length", "rows", "steps"):
            if any(isinstance(c, int) and c > 1 for c in value.consts()) or value.tagged("config"):
                for place in _origins(facts, source, leaf, 0):
                    found[place[1]] = place
        elif isinstance(leaf, cst.Integer) and leaf.evaluated_value > 1:
            found[leaf] = (source, leaf)


def _assigned(source: Source, at: cst.CSTNode, name: str) -> list[cst.BaseExpression]:
    function = source.function(at)
    return [
        n.value
        for n in walk(function)
        if isinstance(n, cst.Assign) and source.function(n) is function and any(isinstance(t.target, cst.Name) and t.target.value == name for t in n.targets)
    ]


def _origins(facts: Facts, source: Source, node: cst.BaseExpression, depth: int) -> list[Place]:
    """The arguments, in the calls that make the batches, that a size comes from; the name itself where it is no parameter."""
    function = source.function(node)
    if isinstance(node, cst.Name) and node.value in parameters(function) and depth < 4:
        found: list[Place] = []
        for frame in _active(facts, function):
            arg = argument_for(frame.call, function, node.value)
            if arg is not None and frame.caller is not None:
                found.append((frame.caller.source, arg.value))
        return found or [(source, node)]
    if isinstance(node, cst.Attribute) and depth < 4:
        kept = _kept(source, dotted(node) or "")
        return _origins(facts, source, kept[0], depth + 1) if len(kept) == 1 else []
    return [(source, node)]


def _kept(source: Source, name: str) -> list[cst.BaseExpression]:
    """What is assigned to an attribute, alone or in a tuple."""
    found: list[cst.BaseExpression] = []
    for node in source.nodes:
        for target in node.targets if isinstance(node, cst.Assign) else ():
            assert isinstance(node, cst.Assign)
            if dotted(target.target) == name:
                found.append(node.value)
            elif isinstance(target.target, cst.Tuple) and isinstance(node.value, cst.Tuple):
                found += [v.value for t, v in zip(target.target.elements, node.value.elements, strict=False) if dotted(t.value) == name]
    return found


def _active(facts: Facts, function: cst.CSTNode) -> list[Frame]:
    return list({f.call: f for f in facts.called_from(function)}.values())


