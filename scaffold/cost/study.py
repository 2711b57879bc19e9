"""A whole cost study as plain data: what ``scaffold cost --json`` prints and every report is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

from scaffold.cost.calculator import Job, Limits, Market, Scaling, Setup, against, setups
from scaffold.cost.failures import break_even
from scaffold.cost.numbers import CENT, rounded
from scaffold.cost.verdict import name, verdict

SCHEMA = "scaffold-cost/1"
FINE = Decimal("0.0001")


@dataclass(frozen=True)
class Assumption:
    """Something that the figures rest on: where it is from, and of what day (ISO), if that is known."""

    what: str
    source: str
    date: str | None = None
    stale: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"what": self.what, "source": self.source, "date": self.date, "stale": self.stale}


@dataclass(frozen=True)
class Study:
    """What is asked: the run, the machines, the ways to pay, the limits, and what was taken for granted."""

    job: Job
    gpu: str | None
    scalings: Sequence[Scaling]
    markets: Sequence[Market]
    limits: Limits = field(default_factory=Limits)
    assumptions: Sequence[Assumption] = ()

    def as_dict(self, today: date) -> dict[str, Any]:
        """The answer. Money are strings of dollars and cents, hours and shares strings with four decimals."""
        found = setups(self.job, self.scalings, self.markets)
        lines = [_line(one, found[0], self.limits) for one in found]
        return {
            "schema": SCHEMA,
            "date": today.isoformat(),
            "job": {"hours": self.job.hours.as_dict(FINE), "gpus": self.job.gpus, "gpu": self.gpu},
            "markets": [_market(m, found) for m in self.markets],
            "limits": {"cost": _text(self.limits.cost, CENT), "hours": _text(self.limits.hours, FINE)},
            "setups": lines,
            "qualifies": not self.limits or any(line["qualifies"] for line in lines),
            "verdict": verdict(found, self.limits),
            "assumptions": [a.as_dict() for a in self.assumptions],
        }


def _text(value: Decimal | None, digits: Decimal) -> str | None:
    return None if value is None else str(rounded(value, digits))


def _market(market: Market, found: Sequence[Setup]) -> dict[str, Any]:
    failures = market.failures
    same = [s for s in found if s.market.name == market.name]
    data: dict[str, Any] = {
        "name": market.name,
        "price": market.price.as_dict(FINE) if market.price else None,
        "failures": None,
    }
    if failures:
        data["failures"] = {
            "machine_mean_time": str(rounded(failures.mean_time, FINE)),
            "save": str(rounded(failures.save, FINE)),
            "restart": str(rounded(failures.restart, FINE)),
            "best_interval": {str(s.scaling.nodes): str(rounded(failures.best(s.scaling.nodes), FINE)) for s in same},
        }
        if market.name == "spot":
            data["break_even"] = _break_even(same[0], found)
    return data


def _break_even(spot: Setup, found: Sequence[Setup]) -> str | None:
    """Hours that a machine must last on average for spot to cost no more than on demand."""
    steady = next((s for s in found if s.market.name == "on demand" and s.scaling == spot.scaling), None)
    if not (steady and steady.cost and spot.market.price and spot.market.failures):
        return None
    limit = steady.cost.expected / spot.market.price.expected / spot.gpus
    work = spot.wall.expected - spot.lost
    return _text(break_even(spot.market.failures, work, spot.scaling.nodes, limit), FINE)


def _line(one: Setup, base: Setup, limits: Limits) -> dict[str, Any]:
    other = against(one, base)
    broken = one.breaks(limits)
    return {
        "name": name(one),
        "nodes": one.scaling.nodes,
        "gpus": one.gpus,
        "market": one.market.name,
        "efficiency": one.scaling.efficiency.as_dict(FINE),
        "basis": one.scaling.basis,
        "hours": one.wall.as_dict(FINE),
        "gpu_hours": one.gpu_hours.as_dict(FINE),
        "cost": one.cost.as_dict(CENT) if one.cost else None,
        "lost_hours": str(rounded(one.lost, FINE)),
        "checkpoint_every": _text(one.interval, FINE),
        "extra": _text(other.extra, CENT),
        "extra_share": _text(other.share, FINE),
        "hours_saved": str(rounded(other.saved, FINE)),
        "per_hour_saved": _text(other.per_hour, CENT),
        "breaks": list(broken),
        "qualifies": not broken if limits else None,
    }
