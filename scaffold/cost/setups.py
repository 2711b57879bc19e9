"""Wall-clock time, GPU-hours and cost of a run on more machines, from its time on the first set-up and the scaling efficiency.

``wall = hours / (machines x efficiency)`` relative to the first set-up, ``GPU-hours = wall x GPUs``, ``cost = GPU-hours x price``.
Storage and traffic are not included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from scaffold.errors import ScaffoldError

CENT = Decimal("0.01")
TENTH = Decimal("0.1")


@dataclass(frozen=True)
class Setup:
    """One row: machines, GPUs in all, efficiency as a share, hours, GPU-hours and US dollars, not rounded."""

    nodes: int
    gpus: int
    efficiency: Decimal
    hours: Decimal
    price: Decimal

    @property
    def gpu_hours(self) -> Decimal:
        """Hours times GPUs."""
        return self.hours * self.gpus

    @property
    def cost(self) -> Decimal:
        """US dollars."""
        return self.gpu_hours * self.price


def setups(hours: Decimal, gpus_per_node: int, price: Decimal, nodes: Sequence[int], efficiencies: Sequence[Decimal]) -> list[Setup]:
    """The first number of machines at full efficiency, each further one at every efficiency.

    Raises ``ScaffoldError`` for hours, prices, machines or efficiencies that make no sense.
    """
    if hours <= 0:
        raise ScaffoldError(f"--hours {hours}: a time above zero is needed")
    if price < 0:
        raise ScaffoldError(f"--price {price}: a price cannot be below zero")
    if gpus_per_node < 1:
        raise ScaffoldError(f"--gpus {gpus_per_node}: at least 1 GPU is needed")
    if not nodes or min(nodes) < 1:
        raise ScaffoldError("--nodes: at least 1 machine is needed")
    for share in efficiencies:
        if not 0 < share <= 1:
            raise ScaffoldError(f"--efficiency {share}: a share above 0 and up to 1 is needed, for instance 0.9")
    first = nodes[0]
    rows = [Setup(first, first * gpus_per_node, Decimal(1), hours, price)]
    for count in nodes[1:]:
        factor = Decimal(count) / first
        rows += [Setup(count, count * gpus_per_node, share, hours / (factor * share), price) for share in efficiencies]
    return rows


def dearer(row: Setup, base: Setup) -> Decimal:
    """How much more a row costs than the first, as a share of it."""
    return row.cost / base.cost - 1 if base.cost else Decimal(0)


def per_hour_saved(row: Setup, base: Setup) -> Decimal | None:
    """US dollars for each hour that a row ends sooner; ``None`` where it does not."""
    saved = base.hours - row.hours
    return (row.cost - base.cost) / saved if saved > 0 else None


def money(value: Decimal) -> str:
    """``$1,234.50``."""
    return f"${value.quantize(CENT, ROUND_HALF_UP):,}"


def tenths(value: Decimal) -> str:
    """One decimal place."""
    return f"{value.quantize(TENTH, ROUND_HALF_UP):,}"


def percent(value: Decimal) -> str:
    """A share in whole per cent."""
    return f"{(value * 100).quantize(Decimal(1), ROUND_HALF_UP)}%"


def verdict(rows: Sequence[Setup]) -> str:
    """The decision in a sentence."""
    base, others = rows[0], rows[1:]
    if not others:
        return f"{base.gpus} GPUs take {tenths(base.hours)} h and cost {money(base.cost)}."
    best, worst = min(others, key=lambda r: r.cost), max(others, key=lambda r: r.cost)
    more = percent(dearer(best, base)) if best is worst else f"{percent(dearer(best, base))} to {percent(dearer(worst, base))}"
    rate = per_hour_saved(best, base)
    if rate is None:
        return f"More machines do not end sooner here: {machines(base)} at {money(base.cost)} is the choice."
    if best.cost <= base.cost:
        return f"{machines(best).capitalize()} end {tenths(base.hours - best.hours)} h sooner and cost no more: {money(best.cost)}."
    return (
        f"More machines end sooner and cost {more} more: {money(best.cost - base.cost)} for {tenths(base.hours - best.hours)} h saved at "
        f"{percent(best.efficiency)} efficiency, {money(rate)} an hour. If nobody waits for the result, {machines(base)} is the cheaper answer."
    )


def machines(row: Setup) -> str:
    """``one machine``, ``2 machines``."""
    return "one machine" if row.nodes == 1 else f"{row.nodes} machines"
