"""Let all ranks take the same branch: decide on the global value.

A decision taken from one rank's loss (stop early, skip a NaN step, keep the best weights) can differ between ranks. Then one rank leaves
the loop or skips a backward while the others wait in the next all-reduce: a hang, or silently different training.

Before::

    if torch.isnan(loss):
        continue

After::

    if any_rank(torch.isnan(loss)):
        continue

Reference: https://docs.pytorch.org/docs/stable/notes/ddp.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.carried import local_kinds
from scaffold.plan.locals import parts
from scaffold.plan.outputs import outputs
from scaffold.plan.regions import divided_loops, inside
from scaffold.roles.trace import Event
from scaffold.rules import Diagnostic
from scaffold.rules.common import any_rank
from scaffold.rules.reduce import in_place
from scaffold.source.edits import Author
from scaffold.source.tree import Source, walk

ID = "SC503"
NAME = "steering"
SEVERITY = "H"

_LEAVES = (cst.Break, cst.Continue, cst.Return, cst.Raise)
_ACTS = {"backward", "step", "zero_grad", "exit", "save", "load_state_dict", "all_reduce", "barrier", "update"}


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Make the tests of rank-local branches global where what they guard must happen on all ranks alike."""
    nodes: set[cst.CSTNode] = {x.node for x in divided_loops(plan.facts, plan.sharded)}
    shown: set[cst.CSTNode] = {o.node for o in outputs(plan.facts)}
    done: set[cst.CSTNode] = set()
    for event in plan.facts.trace.of_kind("branch"):
        if event.node in done or not isinstance(event.node, (cst.If, cst.While)):
            continue
        clock = event.value.tagged("clock")
        local = local_kinds(plan.facts, event.node.test, plan.sharded) if inside(event, nodes) else set()
        if not clock and not local:
            continue
        if not _matters(plan, event, shown):
            continue
        done.add(event.node)
        _decide_together(plan, author, event.source, event.node.test, bool(clock))
    return
    yield


def _matters(plan: Plan, event: Event, shown: set[cst.CSTNode]) -> bool:
    node = event.node
    assert isinstance(node, (cst.If, cst.While))
    if isinstance(node, cst.While):
        return True
    for inner in [*walk(node.body), *(walk(node.orelse) if node.orelse else ())]:
        if isinstance(inner, _LEAVES) or inner in shown and _reduces(plan, event.source, inner):
            return True
        if isinstance(inner, (cst.Assign, cst.AugAssign)) and plan.facts.trace.value(inner.value).tagged("grad"):
            return True
        if isinstance(inner, cst.Call):
            name = inner.func.attr.value if isinstance(inner.func, cst.Attribute) else inner.func.value if isinstance(inner.func, cst.Name) else ""
            if name in _ACTS:
                return True
    return False


def _reduces(plan: Plan, source: Source, output: cst.CSTNode) -> bool:
    """Whether a collective is put before an output, so that all ranks must come to it."""
    assert isinstance(output, cst.Call)
    return bool(plan.collective_calls(source, output)) or any(p.clean for a in output.args for p in parts(plan.facts, source, a.value, plan.sharded))


def _decide_together(plan: Plan, author: Author, source: Source, test: cst.BaseExpression, clock: bool) -> None:
    found = parts(plan.facts, source, test, plan.sharded)
    if not clock and found and all(p.clean for p in found):
        if all(p.kind == "count" for p in found):
            return
        for part in found:
            in_place(plan, author, source, part)
        return
    author.wrap(source, test, f"{any_rank(plan, author, source)}(", ")")
