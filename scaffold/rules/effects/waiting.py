"""Waiting for rank 0: a barrier before all ranks read a file that the run itself wrote."""

from __future__ import annotations

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.files import Access, same_file, tests_existence, writes
from scaffold.plan.first import nodes_in_first
from scaffold.plan.outputs import outputs
from scaffold.source.edits import Author
from scaffold.source.tree import Statement


def written_before(plan: Plan, access: Access) -> bool:
    """Whether the file that ``access`` reads was written earlier in the run."""
    early = nodes_in_first(plan.facts)
    return any(w.event.order < access.event.order and w.node not in early and w.node is not access.node and same_file(plan.facts, w, access) for w in writes(plan.facts))


def wait_before(plan: Plan, author: Author, access: Access) -> None:
    """``dist.barrier()`` before the statement that reads, or before the test that asks whether the file is there."""
    source = access.event.source
    statement = source.statement(access.node)
    guarded = {o.node for o in outputs(plan.facts)}
    if any(a in guarded for a in source.ancestors(access.node)):
        return
    for parent in source.ancestors(access.node):
        if isinstance(parent, cst.FunctionDef):
            break
        if isinstance(parent, cst.If) and tests_existence(plan.facts, parent.test):
            statement = _head(access, parent)
    author.before(source, statement, f"{plan.dist(author, source)}.barrier()  # the file is written by rank 0")


def _head(access: Access, node: cst.If) -> Statement:
    """The ``if`` that an ``elif`` belongs to."""
    parents = access.event.source.parents
    while isinstance(parents[node], cst.If):
        node = parents[node]  # type: ignore[assignment]
    return node
