"""From the words of a command line to a study: numbers are checked, prices and efficiencies are looked up."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from pathlib import Path

from scaffold.cost.calculator import BASE, Job, Limits, Market, Scaling
from scaffold.cost.failures import Failures
from scaffold.cost.layers import layers
from scaffold.cost.measured import Measured, read_measured
from scaffold.cost.model import BANDWIDTH
from scaffold.cost.numbers import ONE, Range, decimal, hours, money, percent, positive, spread
from scaffold.cost.prices import Found, find
from scaffold.cost.study import Assumption, Study
from scaffold.cost.verdict import machines
from scaffold.errors import ScaffoldError

ASSUMED = Range(Decimal("0.75"), Decimal("0.9"), Decimal("0.95"))
"""Efficiency of more machines where nothing is known: the article's two values and little better than its better."""

_UNITS = {"s": Decimal(3600), "min": Decimal(60), "h": ONE, "d": ONE / 24}
_MOST_MACHINES = 10_000


@dataclass(frozen=True)
class Asked:
    """The options of ``scaffold cost``, as they were written."""

    hours: str
    gpus: int = 8
    gpu: str | None = None
    price: str | None = None
    prices: Path | None = None
    provider: str | None = None
    nodes: str = "1,2"
    efficiency: str | None = None
    measured: Path | None = None
    bandwidth: str | None = None
    mtbf: str | None = None
    checkpoint_every: str | None = None
    save: str | None = None
    restart: str | None = None
    spot_price: str | None = None
    spot_mtbf: str | None = None
    max_cost: str | None = None
    deadline: str | None = None


def study(asked: Asked, today: date) -> Study:
    """The study that was asked for.

    Raises:
        ScaffoldError: an option is wrong, or a price or file unknown.
    """
    if asked.gpus < 1:
        raise ScaffoldError(f"--gpus {asked.gpus}: a machine has at least 1 GPU")
    found = _found(asked)
    scalings, efficiency = _scalings(asked)
    markets, failures = _markets(asked, found)
    limits = Limits(
        None if asked.max_cost is None else positive(asked.max_cost, "--max-cost"),
        None if asked.deadline is None else duration(asked.deadline, "--deadline"),
    )
    assumptions = [
        Assumption(f"{asked.hours} h on {machines(1)} of {asked.gpus} GPUs", "--hours, --gpus"),
        *_prices(asked, found, today),
        *efficiency,
        *failures,
        Assumption("GPU-hours only: storage, network traffic, idle and queue time are not in it", "scaffold"),
    ]
    return Study(Job(spread(asked.hours, "--hours"), asked.gpus), found.gpu if found else asked.gpu, scalings, markets, limits, assumptions)


def duration(text: str, what: str) -> Decimal:
    """Hours in a text such as ``90s``, ``20min``, ``8h``, ``2d`` or ``8``.

    Raises:
        ScaffoldError: it is none of these, or not above zero.
    """
    match = re.fullmatch(r"\s*([\d._]+)\s*(s|min|h|d)?\s*", text)
    if match is None:
        raise ScaffoldError(f"{what} {text!r}: is no time; write it as 90s, 20min, 8h or 2d")
    return positive(match[1], what) / _UNITS[match[2] or "h"]


def _found(asked: Asked) -> Found | None:
    """The prices of the GPU; ``None`` where none is asked for by name."""
    if asked.gpu is None:
        return None
    try:
        return find(asked.gpu, layers(asked.prices), asked.provider)
    except ScaffoldError:
        if asked.price is None:
            raise
        return None


def _markets(asked: Asked, found: Found | None) -> tuple[list[Market], list[Assumption]]:
    price = spread(asked.price, "--price") if asked.price is not None else found.steady() if found else None
    told: list[Assumption] = []
    steady = Market("on demand", price)
    if asked.mtbf is not None:
        failures = _failures(asked, duration(asked.mtbf, "--mtbf"))
        steady = replace(steady, failures=failures)
        told.append(_told("a machine fails", failures, "--mtbf"))
    elif any(value is not None for value in (asked.checkpoint_every, asked.save, asked.restart)) and asked.spot_mtbf is None:
        raise ScaffoldError("--checkpoint-every, --save and --restart count with --mtbf HOURS: how long a machine runs between failures")
    else:
        told.append(Assumption("no failures on demand (--mtbf counts them)", "scaffold"))
    if asked.spot_mtbf is None:
        if asked.spot_price is not None:
            raise ScaffoldError("--spot-price: give --spot-mtbf HOURS too, the time that a spot machine lasts on average")
        return [steady], told
    spot = spread(asked.spot_price, "--spot-price") if asked.spot_price is not None else found.spot() if found else None
    if spot is None:
        raise ScaffoldError("--spot-mtbf: the spot price is unknown; give --spot-price")
    failures = _failures(asked, duration(asked.spot_mtbf, "--spot-mtbf"))
    told.append(_told("a spot machine is taken away", failures, "--spot-mtbf"))
    return [steady, Market("spot", spot, failures)], told


def _failures(asked: Asked, mean_time: Decimal) -> Failures:
    return Failures(
        mean_time,
        duration(asked.save or "30s", "--save"),
        duration(asked.restart or "10min", "--restart"),
        None if asked.checkpoint_every is None else duration(asked.checkpoint_every, "--checkpoint-every"),
    )


def _told(what: str, failures: Failures, source: str) -> Assumption:
    every = "at the best interval" if failures.interval is None else f"every {hours(failures.interval)}"
    text = f"{what} every {hours(failures.mean_time)} on average, checkpoints {every} take {hours(failures.save)}, a restart {hours(failures.restart)}"
    return Assumption(f"{text}; at worst twice as often", source)


def _prices(asked: Asked, found: Found | None, today: date) -> list[Assumption]:
    if asked.price is not None:
        return [Assumption(f"{asked.price} dollars for a GPU-hour", "--price")]
    if found is None:
        return [Assumption("the price is unknown: hours and GPU-hours alone are compared (--gpu, --price)", "scaffold")]
    rows = []
    for row in found.rows:
        values = [f"{money(v)} {name}" for v, name in ((row.price, "on demand"), (row.spot, "spot")) if v is not None]
        where = f", {row.region}" if row.region else ""
        rows.append(Assumption(f"{row.gpu} at {row.provider}{where}: {', '.join(values)} for a GPU-hour", row.source or found.layer, str(row.checked) if row.checked else None, row.stale(today)))
    return rows


def _scalings(asked: Asked) -> tuple[list[Scaling], list[Assumption]]:
    counts = [_count(part) for part in asked.nodes.split(",")]
    more = sorted({n for n in counts if n > 1})
    base = [BASE] if 1 in counts else []
    if not more:
        return base, []
    if asked.efficiency is not None and asked.measured is not None:
        raise ScaffoldError("--efficiency and --measured: give one of them")
    if asked.efficiency is not None:
        values = [share(part) for part in asked.efficiency.split(",")]
        given = [Scaling(n, Range.exactly(value), "given") for n in more for value in dict.fromkeys(values)]
        return base + given, [Assumption(f"scaling efficiency {', '.join(percent(v) for v in values)}: given, not measured", "--efficiency")]
    if asked.measured is not None:
        return _measured(read_measured(asked.measured), asked, base, more)
    told = Assumption(f"scaling efficiency {percent(ASSUMED.low)} to {percent(ASSUMED.high)}: assumed, measure yours (scaffold measure)", "scaffold")
    return base + [Scaling(n, ASSUMED, "assumed") for n in more], [told]


def _measured(found: Measured, asked: Asked, base: list[Scaling], more: list[int]) -> tuple[list[Scaling], list[Assumption]]:
    link = spread(asked.bandwidth, "--bandwidth") if asked.bandwidth is not None else BANDWIDTH
    scalings = [found.scaling(n, asked.gpus, link) for n in more]
    told = [Assumption(f"measured: {found.about()}", str(asked.measured), found.date)]
    if any(s.basis == "model" for s in scalings):
        given = "--bandwidth" if asked.bandwidth is not None else "assumed, give yours with --bandwidth"
        gbit = f"{link.low:g}" if link.exact else f"{link.low:g} to {link.high:g}"
        told.append(Assumption(f"model, not measured: gradients are all-reduced between machines at {gbit} Gbit/s", given))
    return base + scalings, told


def _count(text: str) -> int:
    value = positive(text, "--nodes")
    if value != int(value) or value > _MOST_MACHINES:
        raise ScaffoldError(f"--nodes {text}: give whole numbers of machines, as in 1,2,4")
    return int(value)


def share(text: str) -> Decimal:
    """An efficiency, ``0.9`` or ``90%``.

    Raises:
        ScaffoldError: it is not above 0 and at most 1.
    """
    plain = text.strip()
    value = decimal(plain.removesuffix("%"), "--efficiency") / (100 if plain.endswith("%") else 1)
    if not 0 < value <= 1:
        hint = f"; did you mean {value / 100}?" if 1 < value <= 100 else ""
        raise ScaffoldError(f"--efficiency {plain}: is a share of the perfect speed-up, above 0 and at most 1{hint}")
    return value
