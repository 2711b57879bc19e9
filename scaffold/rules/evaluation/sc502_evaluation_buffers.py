"""Evaluate one model: give every rank rank 0's BatchNorm statistics first.

BatchNorm's running statistics are updated by each rank from its own share, and DDP copies rank 0's over the others only at the next
training forward. Evaluating the bare modules in between would give each rank other numbers, and decisions taken from them (early
stopping, best checkpoint) would differ: a hang.

Before::

    model.eval()
    for x, y in val_loader: ...

After::

    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)
    for x, y in val_loader: ...

Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.rules import Diagnostic
from scaffold.source.edits import HOIST, Author
from scaffold.source.tree import dotted

ID = "SC502"
NAME = "evaluation-buffers"
SEVERITY = "H"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Broadcast buffers before each evaluation loop over a trained model with BatchNorm."""
    done: set[tuple[cst.CSTNode, str]] = set()
    if plan.options.sync_batchnorm:
        return
    for model in plan.facts.models:
        if not plan.facts.has_batch_norm(model.inst):
            continue
        for event in model.idle:
            loops = [x for x in event.loops if isinstance(x.node, (cst.For, cst.While))]
            training = {x.node for e in plan.facts.backwards for x in e.loops}
            outer = next((x for x in loops if x.node not in training), None)
            name = dotted(event.node.func) if isinstance(event.node, cst.Call) and not event.grad else None
            if name is not None and model.inst not in plan.facts.trace.value(event.node.func).insts():  # type: ignore[attr-defined]
                continue
            if outer is None or name is None or outer.frame is not event.frame or (outer.node, name) in done:
                continue
            done.add((outer.node, name))
            dist = plan.dist(author, outer.source)
            author.before(outer.source, outer.node, f"for buffer in {name}.buffers():  # rank 0's BatchNorm statistics\n    {dist}.broadcast(buffer, src=0)", HOIST)
    return
    yield
