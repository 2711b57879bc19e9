"""Compute on whole tensors: a norm, mean or sum of a sharded parameter or gradient is one rank's part of it.

``p.grad.norm()`` gives a ``DTensor`` that still waits for its reduction, and ``.item()`` reads this rank's part without a word.
``full_tensor()`` completes it; all ranks do so together. Between forward and backward the root's parameters are whole, so both are provided for.

Before::

    total = sum(p.grad.norm().item() ** 2 for p in model.parameters())

After::

    total = sum(whole_tensor(p.grad.norm()).item() ** 2 for p in model.parameters())

Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.html#torch.distributed.tensor.DTensor.full_tensor
"""

from __future__ import annotations

from collections.abc import Iterable

from scaffold.plan import Plan
from scaffold.rules import Diagnostic
from scaffold.source.edits import HOIST, Author
from scaffold.source.tree import Source

ID = "SC706"
NAME = "whole-numbers"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Complete every reduction of a sharded parameter."""
    for source, call in plan.parameter_reductions:
        whole = _whole(plan, author, source)
        if any(a in plan.shown for a in source.ancestors(call)):  # which runs on rank 0 alone
            name = plan.local_name(source, call, "number")
            author.before(source, source.statement(call), f"{name} = {whole}({source.code(call)})", HOIST)
            author.replace(source, call, name)
        else:
            author.call(source, call, whole)
    return
    yield


def _whole(plan: Plan, author: Author, source: Source) -> str:
    name = plan.free(source, "whole_tensor")
    author.need(source, "from torch.distributed.tensor import DTensor")
    author.helper(
        source,
        name,
        f'''def {name}(tensor):
    """The number that one process computes, where each rank may hold a part of it; all ranks must call it together."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
''',
    )
    return name
