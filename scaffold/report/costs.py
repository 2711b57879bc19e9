"""A cost study's lines, formatted for every report. All are made from the study's JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from scaffold.cost.numbers import hours, money, percent, rounded
from scaffold.report.table import paragraph, table

Json = Mapping[str, Any]
UNKNOWN = "unknown"


def span(values: Json, show: Callable[[str], str]) -> str:
    """``5.6 h``, or with a range ``5.6 h (5.3 h to 6.7 h)``."""
    low, middle, high = (show(values[name]) for name in ("low", "expected", "high"))
    return middle if low == high else f"{middle} ({low} to {high})"


def plain(text: str) -> str:
    """A number with one decimal, as GPU-hours; a small one with two digits."""
    value = Decimal(text)
    return f"{rounded(value, Decimal('0.1')):,}" if value >= 1 else f"{value:.2g}"


def price_heading(study: Json) -> str:
    """``Cost at $2.60/GPU-hour`` where there is one exact price, else ``Cost``."""
    prices = [market["price"] for market in study["markets"] if market["price"]]
    exact = len(prices) == 1 and prices[0]["low"] == prices[0]["high"]
    return f"Cost at {money(prices[0]['expected'])}/GPU-hour" if exact else "Cost"


def headings(study: Json) -> list[str]:
    """The columns of the table of set-ups."""
    last = ["Within limits"] if _limited(study) else []
    return ["Setup", "Wall-clock", "GPU-hours", price_heading(study), "More", "Sooner", "Per hour sooner", *last]


def rows(study: Json) -> list[list[str]]:
    """The table of set-ups."""
    return [_row(line, study) for line in study["setups"]]


def _row(line: Json, study: Json) -> list[str]:
    cost = span(line["cost"], money) if line["cost"] else UNKNOWN
    first = line is study["setups"][0]
    more = "" if first or line["extra"] is None else f"{money(line['extra'])} ({percent(line['extra_share'])})"
    sooner = "" if first else hours(line["hours_saved"])
    rate = money(line["per_hour_saved"]) if line["per_hour_saved"] else ""
    last = ["yes" if line["qualifies"] else "no: " + ", ".join(line["breaks"])] if _limited(study) else []
    return [label(line), span(line["hours"], hours), span(line["gpu_hours"], plain), cost, more, sooner, rate, *last]


def label(line: Json) -> str:
    """A set-up's name, with what its efficiency is if that was neither given nor measured."""
    marks = {"assumed": " (assumed)", "model": " (model)", "measured": " (measured)"}
    return f"{line['name']}{marks.get(line['basis'], '')}"


def _limited(study: Json) -> bool:
    return any(value is not None for value in study["limits"].values())


def failure_rows(study: Json) -> list[list[str]]:
    """What checkpoints and failures take, where they are counted: set-up, checkpoint interval, hours lost."""
    lines = [line for line in study["setups"] if line["checkpoint_every"]]
    failing = {m["name"]: m["failures"] for m in study["markets"] if m["failures"]}
    return [
        [label(line), hours(line["checkpoint_every"]), hours(failing[line["market"]]["best_interval"][str(line["nodes"])]), hours(line["lost_hours"])]
        for line in lines
    ]


FAILURE_HEADINGS = ["Setup", "Checkpoint every", "Best interval", "Expected to be lost"]


def notes(study: Json) -> list[str]:
    """What else is worth a line: the rate of interruptions up to which spot pays."""
    found = []
    for market in study["markets"]:
        if market.get("break_even"):
            found.append(f"Spot costs no more than on demand as long as a machine lasts {hours(market['break_even'])} or longer on average.")
        elif "break_even" in market:
            found.append("Spot costs more than on demand however rarely it is interrupted.")
    return found


def assumption(item: Json) -> str:
    """An assumption with its source and day; old ones are flagged."""
    day = f", {item['date']}" if item["date"] else ""
    old = " [older than 60 days: check it]" if item["stale"] and item["date"] else " [date unknown: check it]" if item["stale"] else ""
    return f"{item['what']} ({item['source']}{day}){old}"


def text(study: Json) -> str:
    """A study for the terminal."""
    parts = [table([headings(study), *rows(study)])]
    if failure_rows(study):
        parts.append(table([FAILURE_HEADINGS, *failure_rows(study)]))
    parts += [paragraph(note) for note in notes(study)]
    parts.append(paragraph(study["verdict"]))
    parts.append("Taken for granted:\n" + "\n".join(paragraph(assumption(a), "  ") for a in study["assumptions"]))
    return "\n\n".join(parts)
