"""Figures as plain geometry, which the SVG templates draw. Lengths are in the figure's own units, 440 wide: a phone shows them nearly one to one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scaffold.cost.numbers import money

Json = Mapping[str, Any]
WIDTH = 440
LEFT, RIGHT = 58, 16
BAR, GAP, TOP = 22, 44, 34
GIB = 1 << 30
PLOT = 190  # height of a plot between its axes
COLOURS = 8  # classes of colours in the templates


def ticks(largest: float, wanted: int = 4) -> list[float]:
    """Round numbers from 0 to at least ``largest``, about ``wanted`` of them above 0."""
    raw = largest / wanted if largest > 0 else 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    return [step * i for i in range(max(1, math.ceil(largest / step - 1e-9)) + 1)]


def memory(data: Json) -> dict[str, Any]:
    """A stacked bar for each strategy against the GPU's memory, with the range from low to high."""
    limit = data["gpu"]["bytes"]
    strategies = data["strategies"]
    marks = ticks(max(limit, *(max(s["high"], sum(p["bytes"] for p in s["parts"])) for s in strategies)) / GIB)
    scale = (WIDTH - 2 * RIGHT) / marks[-1]

    def x(size: float) -> float:
        return round(RIGHT + size / GIB * scale, 2)

    names = list(dict.fromkeys(part["name"] for s in strategies for part in s["parts"] if part["bytes"]))
    bars = []
    for number, strategy in enumerate(strategies):
        top = TOP + number * (BAR + GAP)
        at, parts = 0, []
        for part in strategy["parts"]:
            if part["bytes"]:
                parts.append({"x": x(at), "width": round(x(at + part["bytes"]) - x(at), 2), "colour": names.index(part["name"]) % COLOURS, "title": f"{part['name']}: {gib(part['bytes'])}"})
                at += part["bytes"]
        fits = strategy["high"] <= limit
        told = f"{gib(strategy['expected'])} expected, {gib(strategy['high'])} at most"
        bars.append({"y": top, "name": strategy["name"], "told": told, "fits": fits, "parts": parts, "low": x(strategy["low"]), "high": x(strategy["high"])})
    bottom = TOP + len(strategies) * (BAR + GAP) - 14
    legend = [{"x": RIGHT + (i % 2) * 206, "y": bottom + 52 + i // 2 * 20, "colour": i % COLOURS, "name": name} for i, name in enumerate(names)]
    return {
        "title": f"Memory per GPU against the {gib(limit)} of {data['gpu']['name']}",
        "told": "; ".join(f"{b['name']}: {b['told']}, {'fits' if b['fits'] else 'does not fit'}" for b in bars),
        "width": WIDTH,
        "height": bottom + 56 + math.ceil(len(names) / 2) * 20,
        "bottom": bottom,
        "bar": BAR,
        "bars": bars,
        "limit": {"x": x(limit), "name": f"{gib(limit)}"},
        "ticks": [{"x": x(mark * GIB), "name": f"{mark:g}"} for mark in marks],
        "legend": legend,
    }


def gib(size: float) -> str:
    """Bytes as GiB with three digits; small sizes as MiB."""
    if size < GIB / 10:
        return f"{size / (1 << 20):.3g} MiB"
    return f"{size / GIB:.3g} GiB" if size < 999 * GIB else f"{size / GIB:,.0f} GiB"


def cost(study: Json) -> dict[str, Any] | None:
    """Cost against machines; ``None`` where there is nothing to draw."""
    return _curves(study, "cost", "Cost against machines", lambda value: money(str(value)).removesuffix(".00"))


def time(study: Json) -> dict[str, Any] | None:
    """Wall-clock against machines."""
    return _curves(study, "hours", "Wall-clock against machines", lambda value: f"{value:g} h")


def _curves(study: Json, what: str, title: str, show: Callable[[float], str]) -> dict[str, Any] | None:
    lines = [s for s in study["setups"] if s[what] is not None]
    nodes = sorted({s["nodes"] for s in lines})
    if len(nodes) < 2:
        return None
    marks = ticks(max(float(s[what]["high"]) for s in lines))
    across, top = WIDTH - LEFT - RIGHT, TOP

    def x(count: int) -> float:
        return round(LEFT + 14 + nodes.index(count) * (across - 28) / (len(nodes) - 1), 2)

    def y(value: float) -> float:
        return round(top + PLOT * (1 - value / marks[-1]), 2)

    bands, series = [], []
    for market in dict.fromkeys(s["market"] for s in lines):
        own = [s for s in lines if s["market"] == market]
        bands.append({"points": _band(own, what, x, y), "colour": _colour(market)})
        series += _series(own, what, x, y, market)
    bottom = top + PLOT
    for i, line in enumerate(series):
        line["legend"] = {"x": LEFT + 4, "y": bottom + 50 + i * 20}
    return {
        "title": title,
        "told": "; ".join(f"{s['name']}: {show(float(s[what]['expected']))}" for s in lines),
        "width": WIDTH,
        "height": bottom + 54 + len(series) * 20,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "bottom": bottom,
        "ticks": [{"y": y(mark), "name": show(mark)} for mark in marks],
        "nodes": [{"x": x(n), "name": str(n)} for n in nodes],
        "bands": bands,
        "series": series,
    }


def _colour(market: str) -> int:
    return 1 if market == "spot" else 0


def _band(own: Sequence[Json], what: str, x: Callable[[int], float], y: Callable[[float], float]) -> str:
    """The outline of lowest and highest values over the machines."""
    nodes = sorted({s["nodes"] for s in own})
    low = [(n, min(float(s[what]["low"]) for s in own if s["nodes"] == n)) for n in nodes]
    high = [(n, max(float(s[what]["high"]) for s in own if s["nodes"] == n)) for n in nodes]
    return " ".join(f"{x(n)},{y(value)}" for n, value in [*low, *reversed(high)])


def _series(own: Sequence[Json], what: str, x: Callable[[int], float], y: Callable[[float], float], market: str) -> list[dict[str, Any]]:
    """One line for each efficiency that was given, or one for all that were measured, modelled or assumed."""
    start = [s for s in own if s["basis"] == "base"]
    rest = [s for s in own if s["basis"] != "base"]
    groups: dict[str, list[Json]] = {}
    for s in rest:
        groups.setdefault(f"{float(s['efficiency']['expected']):.0%} efficiency" if s["basis"] == "given" else "expected; the band is the range", []).append(s)
    found = []
    for number, (name, group) in enumerate(groups.items()):
        points = [(x(s["nodes"]), y(float(s[what]["expected"])), s["name"]) for s in [*start, *group]]
        found.append(
            {
                "name": f"{market}, {name}",
                "points": " ".join(f"{a},{b}" for a, b, _ in points),
                "dots": [{"x": a, "y": b, "title": text} for a, b, text in points],
                "colour": _colour(market),
                "dash": number % 4,
            }
        )
    return found
