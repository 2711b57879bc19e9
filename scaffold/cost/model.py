"""Scaling over machines where it cannot be measured: the time of the all-reduce against the time of a step.

A ring all-reduce over N machines sends and receives 2 (N - 1)/N times the gradients' bytes over each machine's link
(Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009). DDP hides it behind
the backward pass, but for the last bucket (Li et al., PyTorch Distributed, 2020).
"""

from __future__ import annotations

from decimal import Decimal

from scaffold.cost.numbers import ONE, Range

BANDWIDTH = Range(Decimal(25), Decimal(100), Decimal(400))
"""Gbit/s between two machines where none is given: plain cloud Ethernet, a fast one, InfiniBand NDR."""

BACKWARD = Decimal(2) / 3
"""Share of a step that is backward, behind which communication can hide: it takes about twice the forward's time."""

SHARDED = Decimal("1.5")
"""FSDP2 gathers parameters in forward and in backward and scatters gradients: half as much again as an all-reduce."""

BUCKET = Decimal(25 << 20)
"""Bytes of DDP's bucket: the last one has nothing to hide behind."""


def all_reduce(gradients: Decimal, nodes: int, gbit: Decimal) -> Decimal:
    """Seconds for the gradients' bytes over ``nodes`` machines with ``gbit`` Gbit/s each."""
    return 2 * Decimal(nodes - 1) / nodes * gradients / (gbit * 10**9 / 8)


def efficiency(step: Decimal, gradients: Decimal, nodes: int, gbit: Range) -> Range:
    """Efficiency over machines, for a step of ``step`` seconds on one.

    Low: the slowest link and nothing hidden. Expected: the middle link, hidden behind backward but for the last
    bucket. High: the fastest link, all hidden that a step can hide.
    """
    slow, middle, fast = (all_reduce(gradients, nodes, value) for value in (gbit.low, gbit.expected, gbit.high))
    last = all_reduce(min(gradients, BUCKET), nodes, gbit.expected)
    bare = max(middle - BACKWARD * step, min(middle, last))
    return Range(step / (step + slow), step / (step + bare), min(ONE, step / max(step, fast)))
