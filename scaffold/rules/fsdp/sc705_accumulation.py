"""Reduce gradients once per step: no reduction for the micro-batches before the last.

With gradient accumulation FSDP2 scatters gradients after every micro-batch. ``set_requires_gradient_sync`` keeps them whole until the last
one, for less traffic and the same result.

Before::

    loss = model(x).loss / accumulation_steps
    loss.backward()

After::

    model.set_requires_gradient_sync((i + 1) % accumulation_steps == 0)
    loss = model(x).loss / accumulation_steps
    loss.backward()

Reference: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html#torch.distributed.fsdp.FSDPModule.set_requires_gradient_sync
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.accumulation import accumulating
from scaffold.rules import Diagnostic
from scaffold.source.edits import Author

ID = "SC705"
NAME = "sharded-accumulation"
SEVERITY = "S"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Say before the forward whether this micro-batch is the last of its step."""
    for sharding in plan.shardings:
        found = None if sharding.reason else accumulating(plan.facts, sharding)
        if found is None:
            continue
        forward = sharding.model.live[0].node
        assert isinstance(forward, cst.Call)
        called = forward.func if sharding.model.live[0].kind == "forward" else getattr(forward.func, "value", forward.func)
        author.before(found.source, found.statements[0], f"{found.source.code(called)}.set_requires_gradient_sync({found.last})")
    return
    yield
