"""The sentence that a table of set-ups comes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from scaffold.cost.calculator import Against, Limits, Setup, against
from scaffold.cost.numbers import hours, money, percent


def machines(count: int) -> str:
    """``1 machine``, ``2 machines``."""
    return f"{count} machine{'s' * (count != 1)}"


def name(one: Setup) -> str:
    """A set-up as in ``2 machines, 16 GPUs, 90% efficiency``."""
    parts = [machines(one.scaling.nodes), f"{one.gpus} GPU{'s' * (one.gpus != 1)}"]
    if one.scaling.basis != "base":
        parts.append(f"{efficiency(one)} efficiency")
    if one.market.name == "spot":
        parts.append("spot")
    return ", ".join(parts)


def efficiency(one: Setup) -> str:
    """``90%``, or ``75% to 95%`` for a range."""
    known = one.scaling.efficiency
    return percent(known.expected) if known.exact else f"{percent(known.low)} to {percent(known.high)}"


def verdict(setups: Sequence[Setup], limits: Limits) -> str:
    """One or two sentences: which set-up to take, and what more machines buy. ``setups[0]`` is the base."""
    if limits:
        return _within(setups, limits)
    steady = [s for s in setups if s.market.name == "on demand"]
    return " ".join(filter(None, [_more_machines(steady), _spot(setups)]))


def cheapest(setups: Sequence[Setup]) -> Setup:
    """The set-up of the lowest expected cost; where costs are unknown, of the fewest GPU-hours. Ties: the fastest."""
    return min(setups, key=lambda s: (s.cost.expected if s.cost else s.gpu_hours.expected, s.wall.expected))


def _price(one: Setup) -> str:
    if one.cost:
        return money(one.cost.expected)
    return f"{one.gpu_hours.expected:.1f} GPU-hours at an unknown price"


def _more_machines(setups: Sequence[Setup]) -> str:
    base, others = setups[0], setups[1:]
    first = machines(base.scaling.nodes)
    if not others:
        return f"{first.capitalize()}: {hours(base.wall.expected)} and {_price(base)}."
    faster = [s for s in others if s.wall.expected < base.wall.expected]
    if not faster:
        return f"Stay with {first} ({_price(base)}): more machines would not even finish sooner at this efficiency."
    best = cheapest(setups)
    groups = [
        _bought([s for s in faster if s.scaling.nodes == n], base) for n in sorted({s.scaling.nodes for s in faster})
    ]
    bought = "; ".join(groups)
    if best is base:
        return f"{first.capitalize()} is the cheaper answer at {_price(base)}: {bought}. Add machines only if the time is worth that."
    return f"Take {name(best)}: {_price(best)} against {_price(base)} on {first}; {bought}."


def _bought(group: Sequence[Setup], base: Setup) -> str:
    """What one number of machines buys, over its efficiencies."""
    all_of = [against(s, base) for s in group]
    sooner = _between([a.saved for a in all_of], hours)
    start = f"{machines(group[0].scaling.nodes)} finish {sooner} sooner"
    if any(a.extra is None for a in all_of):
        more = [s.gpu_hours.expected / base.gpu_hours.expected - 1 for s in group]
        return f"{start} for {_between(more, percent)} more GPU-hours"
    return start + _dearer(all_of)


def _dearer(all_of: Sequence[Against]) -> str:
    extra = [a.extra for a in all_of if a.extra is not None]
    share = [a.share for a in all_of if a.share is not None]
    rate = [a.per_hour for a in all_of if a.per_hour is not None]
    if max(extra) <= 0:
        return f" and cost {_between([-e for e in extra], money)} less" if min(extra) < 0 else " at the same cost"
    if len(rate) < len(extra):
        return f" and cost from {money(min(extra))} to {money(max(extra))} more"
    return f" and cost {_between(extra, money)} ({_between(share, percent)}) more, {_between(rate, money)} for each hour sooner"


def _between(values: Sequence[Decimal], show: Callable[[Decimal], str]) -> str:
    """``4.4 h``, or ``3.3 h to 4.4 h``."""
    low, high = show(min(values)), show(max(values))
    return low if low == high else f"{low} to {high}"


def _spot(setups: Sequence[Setup]) -> str:
    pairs = [
        (spot, steady)
        for spot in setups
        if spot.market.name == "spot"
        for steady in setups
        if steady.market.name == "on demand" and steady.scaling == spot.scaling
    ]
    if not pairs:
        return ""
    spot, steady = pairs[0]
    found = against(spot, steady)
    if found.extra is None:
        return ""
    later = f"{hours(-found.saved)} later" if found.saved < 0 else f"{hours(found.saved)} sooner"
    word = "saves" if found.extra < 0 else "costs"
    more = "" if found.extra < 0 else " more"
    return f"Spot on {machines(spot.scaling.nodes)} {word} {money(abs(found.extra))}{more}, {later}, with interruptions counted."


def _within(setups: Sequence[Setup], limits: Limits) -> str:
    bounds = []
    if limits.cost is not None:
        bounds.append(f"at most {money(limits.cost)}")
    if limits.hours is not None:
        bounds.append(f"at most {hours(limits.hours)}")
    asked = " and ".join(bounds)
    fit = [s for s in setups if not s.breaks(limits)]
    if fit:
        best = cheapest(fit)
        return f"{len(fit)} of {len(setups)} set-ups keep{'s' * (len(fit) == 1)} to {asked}; take {name(best)}: {_price(best)} in {hours(best.wall.expected)}."
    if all(s.cost is None for s in setups) and limits.cost is not None:
        return f"No set-up is known to keep to {asked}: the price is unknown (--price)."
    return f"No set-up keeps to {asked}: {_nearest(setups)}."


def _nearest(setups: Sequence[Setup]) -> str:
    fastest = min(setups, key=lambda s: s.wall.high)
    least = min(setups, key=lambda s: s.cost.high if s.cost else s.gpu_hours.high)
    known = f", {money(fastest.cost.high)}" if fastest.cost else ""
    text = f"the fastest, {name(fastest)}, takes up to {hours(fastest.wall.high)}{known}"
    if least is not fastest and least.cost:
        text += f"; the cheapest, {name(least)}, costs up to {money(least.cost.high)}, {hours(least.wall.high)}"
    return text
