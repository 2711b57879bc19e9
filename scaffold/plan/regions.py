"""Which code runs inside a loop over divided data, and what stands behind such a loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from scaffold.plan.carried import follows, own_nodes
from scaffold.roles.facts import Facts, StepLoop
from scaffold.roles.trace import Event
from scaffold.source.tree import Source


def divided_loops(facts: Facts, data: set[object]) -> list[StepLoop]:
    """The loops over batches whose data is divided among the ranks, each node once."""
    found: dict[cst.CSTNode, StepLoop] = {}
    for loop in facts.step_loops:
        if loop.data in data and not isinstance(loop.node, cst.CompFor):
            found.setdefault(loop.node, loop)
    return list(found.values())


def inside(event: Event, loops: set[cst.CSTNode]) -> bool:
    """Whether an event happened in one of ``loops``."""
    return any(x.node in loops for x in event.loops)


@dataclass(frozen=True)
class Behind:
    """Nodes of one function that run after a loop (or after the call that holds it)."""

    source: Source
    function: cst.CSTNode
    nodes: tuple[cst.CSTNode, ...]


def behind(facts: Facts, loop: StepLoop) -> Iterator[Behind]:
    """For the loop's function and each caller of it: the nodes that stand after the loop."""
    seen: set[cst.CSTNode] = set()
    node: cst.CSTNode = loop.node
    for frame in loop.frame.stack():
        if frame.node in seen:
            break
        seen.add(frame.node)
        end = frame.source.span(node)[1]
        later = tuple(n for n in own_nodes(frame.node) if n in frame.source.parents and frame.source.span(n)[0] >= end and follows(frame.source, node, n))
        yield Behind(frame.source, frame.node, later)
        if frame.call is None:
            break
        node = frame.call
