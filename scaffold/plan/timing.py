"""When code runs: while a module is imported (before there is a process group), or while the model is trained."""

from __future__ import annotations

from functools import lru_cache

import libcst as cst

from scaffold.roles.facts import Facts
from scaffold.roles.trace import Event


def at_import(facts: Facts, event: Event) -> bool:
    """Whether an event happens while a module other than the entry script is imported."""
    entry = facts.project.entry
    return any(isinstance(f.node, cst.Module) and f.source is not entry and f.caller is not None for f in event.frame.stack())


@lru_cache(maxsize=8)
def nodes_at_import(facts: Facts) -> frozenset[cst.CSTNode]:
    """The nodes of all events that happen at import."""
    return frozenset(e.node for e in facts.trace.events if at_import(facts, e))


@lru_cache(maxsize=8)
def training_loops(facts: Facts) -> frozenset[cst.CSTNode]:
    """Every loop that a backward runs in."""
    return frozenset(x.node for e in facts.backwards for x in e.loops)


def in_training(facts: Facts, event: Event) -> bool:
    """Whether an event happens inside a loop that trains."""
    loops = training_loops(facts)
    return any(x.node in loops for x in event.loops)
