"""Divide the number of steps that a script computes itself.

``len(data) // batch_size`` is the number of steps of an epoch on one GPU. N ranks with that batch size each take N times as much a step: the
loop over it ends N times later than the data, an average over it comes out N times too small, a schedule timed by it ends after 1/N of its
way. ``len(loader)`` needs nothing: the sampler shortens the loader.

Before::

    steps = len(data) // batch_size
    scheduler = OneCycleLR(optimizer, max_lr=0.1, total_steps=epochs * steps)

After::

    steps = len(data) // batch_size // world_size
    scheduler = OneCycleLR(optimizer, max_lr=0.1, total_steps=epochs * steps)

Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.steps import counted_steps
from scaffold.rules import Diagnostic
from scaffold.source.edits import AFTER, Author

ID = "SC219"
NAME = "counted-steps"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Divide each computed number of steps by the world size, where each rank keeps the batch size."""
    if plan.options.batch == "per-gpu":
        for node, source in counted_steps(plan.facts).items():
            end = source.span(node.right)[1] if not node.right.rpar else source.outer_span(node.right)[1]
            operator = "//" if isinstance(node.operator, cst.FloorDivide) else "/"
            author.splice(source, end, end, f" {operator} {plan.world_size(author, source, node)}", AFTER)
    return
    yield
