"""Wall-clock, GPU-hours and cost of a run on one and on more machines.

wall = hours on one machine / (machines x efficiency); GPU-hours = wall x GPUs; cost = GPU-hours x price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from scaffold.cost.failures import Failures
from scaffold.cost.numbers import ONE, Range

Basis = Literal["base", "given", "measured", "model", "assumed"]


@dataclass(frozen=True)
class Scaling:
    """The share of the perfect speed-up that so many machines reach; one machine's is 1."""

    nodes: int
    efficiency: Range
    basis: Basis


@dataclass(frozen=True)
class Market:
    """A way to pay: the price of a GPU-hour in dollars (``None``: unknown, which is not zero), and what fails."""

    name: Literal["on demand", "spot"]
    price: Range | None
    failures: Failures | None = None


@dataclass(frozen=True)
class Job:
    """The run: its hours on one machine without failures, and the GPUs of one machine."""

    hours: Range
    gpus: int


@dataclass(frozen=True)
class Limits:
    """What a set-up may cost at most (dollars) and how long it may take (hours); judged by the high values."""

    cost: Decimal | None = None
    hours: Decimal | None = None

    def __bool__(self) -> bool:
        return self.cost is not None or self.hours is not None


@dataclass(frozen=True)
class Setup:
    """One line of the table. ``lost`` are the expected hours that checkpoints and failures take of ``wall``."""

    scaling: Scaling
    market: Market
    gpus: int
    wall: Range
    gpu_hours: Range
    cost: Range | None
    lost: Decimal
    interval: Decimal | None

    def breaks(self, limits: Limits) -> tuple[str, ...]:
        """The limits that the set-up does not keep: ``cost``, ``deadline``. An unknown cost keeps no limit."""
        broken = []
        if limits.cost is not None and (self.cost is None or self.cost.high > limits.cost):
            broken.append("cost")
        if limits.hours is not None and self.wall.high > limits.hours:
            broken.append("deadline")
        return tuple(broken)


@dataclass(frozen=True)
class Against:
    """A set-up against the first: dollars more, as a share, hours sooner, dollars for each hour sooner."""

    extra: Decimal | None
    share: Decimal | None
    saved: Decimal
    per_hour: Decimal | None


def setup(job: Job, scaling: Scaling, market: Market) -> Setup:
    """Work out one set-up."""
    nodes = scaling.nodes
    best, worst = scaling.efficiency.high, scaling.efficiency.low
    work = Range(
        job.hours.low / (nodes * best),
        job.hours.expected / (nodes * scaling.efficiency.expected),
        job.hours.high / (nodes * worst),
    )
    wall = market.failures.hours(work, nodes) if market.failures else work
    gpus = nodes * job.gpus
    gpu_hours = wall.map(lambda value: value * gpus)
    return Setup(
        scaling,
        market,
        gpus,
        wall,
        gpu_hours,
        gpu_hours.times(market.price) if market.price else None,
        wall.expected - work.expected,
        market.failures.used(nodes) if market.failures else None,
    )


def against(one: Setup, base: Setup) -> Against:
    """Compare the expected values of a set-up with those of another."""
    saved = base.wall.expected - one.wall.expected
    if one.cost is None or base.cost is None:
        return Against(None, None, saved, None)
    extra = one.cost.expected - base.cost.expected
    per_hour = extra / saved if saved > 0 and extra > 0 else None
    return Against(extra, extra / base.cost.expected, saved, per_hour)


def setups(job: Job, scalings: Sequence[Scaling], markets: Sequence[Market]) -> list[Setup]:
    """Every set-up, those of the first market first, fewest machines first."""
    ordered = sorted(scalings, key=lambda s: (s.nodes, -s.efficiency.expected))
    return [setup(job, scaling, market) for market in markets for scaling in ordered]


BASE = Scaling(1, Range.exactly(ONE), "base")
