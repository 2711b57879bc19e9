"""Reduce gradients once per step: ``no_sync`` for the micro-batches before the last.

With gradient accumulation DDP all-reduces after every micro-batch, k times the traffic for the same result. ``no_sync`` must surround the
forward as well as the backward; the last micro-batch of each step stays outside it.

Before::

    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / k
        loss.backward()
        if (i + 1) % k == 0:
            optimizer.step()

After::

    for i, (x, y) in enumerate(loader):
        with nullcontext() if (i + 1) % k == 0 else ddp_model.no_sync():
            loss = criterion(ddp_model(x), y) / k
            loss.backward()
        if (i + 1) % k == 0:
            optimizer.step()

Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html#torch.nn.parallel.DistributedDataParallel.no_sync
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.accumulation import accumulating
from scaffold.rules import Diagnostic
from scaffold.source.edits import Author

ID = "SC307"
NAME = "accumulation"
SEVERITY = "S"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Put forward and backward of accumulating micro-batches under ``no_sync``."""
    for sync in plan.syncs:
        if sync.mode == "ddp" and sync.storage is not None and len(sync.replacements) == 1:
            found = accumulating(plan.facts, sync)
            if found is None:
                continue
            source, replaced = found.source, sync.replacements[0]
            prefix = f"{source.code(replaced.node.value)}." if isinstance(replaced.node, cst.Attribute) else ""
            author.need(source, "from contextlib import nullcontext")
            author.under(source, found.statements, f"with nullcontext() if {found.last} else {prefix}{plan.wrapper_in(sync, source)}.no_sync():")
    return
    yield
