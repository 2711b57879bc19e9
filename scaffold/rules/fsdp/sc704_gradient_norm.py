"""Show the whole gradient norm: ``clip_grad_norm_`` gives each rank a part of it.

With sharded gradients the norm is a ``DTensor``: formatting it raises. ``full_tensor()`` makes it the number that one process computes; all
ranks call it, before any rank guard.

Before::

    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

After::

    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()

Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.roles.facts import deep_tags
from scaffold.rules import Diagnostic
from scaffold.source.edits import Author

ID = "SC704"
NAME = "gradient-norm"
SEVERITY = "C"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Gather norms whose value is used."""
    sharded = {s.model.inst for s in plan.shardings if not s.reason}
    done: set[cst.CSTNode] = set()
    for event in plan.facts.trace.named("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_"):
        if event.node in done or isinstance(event.source.parents[event.node], cst.Expr):
            continue
        done.add(event.node)
        if any(t.kind == "param" and t.of in sharded for a in event.args for t in deep_tags(a, 3)):
            author.wrap(event.source, event.node, "", ".full_tensor()")
    return
    yield
