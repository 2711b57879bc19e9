"""Stop at modules that keep a state made of batches: queues, centres, code books.

A memory bank, a moving average of features or a code book's counts are filled from the batch as it passes. Under DDP each rank fills its own
from its share, and the next forward overwrites all of them with rank 0's: the other ranks' keys are lost, a queue turns over N times more
slowly. How the shares belong together (rows gathered, sums added up) depends on the algorithm, so this is told and not rewritten. BatchNorm's
own statistics are not meant: see ``--sync-batchnorm``.

Before::

    self.queue[:, start:start + n] = keys.t()

What to do::

    keys = torch.cat(torch.distributed.nn.functional.all_gather(keys))  # the whole batch's, on every rank
    self.queue[:, start:start + len(keys)] = keys.t()

Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.timing import in_training
from scaffold.roles import calls
from scaffold.roles.trace import Event
from scaffold.roles.values import Inst, Map, Seq
from scaffold.rules import Diagnostic
from scaffold.source.edits import Author
from scaffold.source.tree import dotted, walk

ID = "SC309"
NAME = "state-of-batches"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Say where a module's state is changed by this rank's share of a batch."""
    done: set[cst.CSTNode] = set()
    for event in plan.facts.trace.of_kind("setattr", "setitem", "call"):
        if event.node in done or not any(t.of in plan.sharded and t.kind != "count" for a in event.args for t in a.locals()) or not in_training(plan.facts, event):
            continue
        name = _state(plan, event)
        if name:
            done.add(event.node)
            yield Diagnostic.at(
                ID, "error", event.source, event.node, f"{name} is changed by each rank's share of the batch, and rank 0's would overwrite the others'",
                "gather the rows (torch.distributed.nn.functional.all_gather) or add up the sums (dist.all_reduce) of all ranks first, so that each makes the same change",
            )  # fmt: skip


def _state(plan: Plan, event: Event) -> str:
    """The attribute of a module that an event changes in place or from its own old value, '' if it is none."""
    node = event.node
    if event.kind == "call":
        method = node.func.attr.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else ""
        if not method.endswith("_") or method.startswith("_") or method in {"requires_grad_", "backward_"}:
            return ""
        target: cst.CSTNode = node.func.value  # type: ignore[attr-defined]
    else:
        target = node
    while isinstance(target, (cst.Subscript, cst.Call)) or isinstance(target, cst.Attribute) and not _is_module(plan, target.value):
        target = target.func if isinstance(target, cst.Call) else target.value
    if not isinstance(target, cst.Attribute) or any(isinstance(o, (Seq, Map)) for o in plan.facts.trace.value(target).objs):
        return ""
    if event.kind == "setattr" and not _from_itself(event, target):
        return ""
    owners = [i.qualified for i in plan.facts.trace.value(target.value).insts()]
    return f"{owners[0] if owners else '?'}.{target.attr.value}"


def _is_module(plan: Plan, node: cst.CSTNode) -> bool:
    return any(isinstance(i, Inst) and calls.role(i) == "module" for i in plan.facts.trace.value(node).insts())


def _from_itself(event: Event, target: cst.Attribute) -> bool:
    """Whether an attribute gets a new value computed from its old one."""
    statement = event.source.statement(target)
    name = dotted(target)
    assigned = [n for n in walk(statement) if isinstance(n, (cst.Assign, cst.AugAssign))]
    return any(
        isinstance(n, cst.AugAssign) or any(isinstance(x, cst.Attribute) and dotted(x) == name for x in walk(n.value)) for n in assigned
    )
