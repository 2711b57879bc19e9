"""A cost report: JSON first, from it the terminal's table, Markdown and a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from scaffold.cost.failures import Failures
from scaffold.cost.prices import Price
from scaffold.cost.setups import Setup, dearer, machines, money, per_hour_saved, percent, tenths, verdict
from scaffold.errors import ScaffoldError
from scaffold.report.table import table
from scaffold.templates import render


def collect(
    rows: Sequence[Setup],
    price: Price,
    loss: Sequence[Failures] | None,
    most: Decimal | None,
    deadline: Decimal | None,
    measured: Path | None,
) -> dict[str, Any]:
    """Everything that a report shows. Numbers are text, as shown and exact."""
    base = rows[0]
    entries = []
    for number, row in enumerate(rows):
        extra = loss[number] if loss else None
        hours = row.hours + (extra.hours if extra else 0)
        cost = hours * row.gpus * row.price
        rate = per_hour_saved(row, base) if row is not base else None
        entries.append({
            "nodes": row.nodes, "gpus": row.gpus, "efficiency": str(row.efficiency),
            "hours": str(row.hours), "gpu_hours": str(row.gpu_hours), "cost": str(row.cost),
            "setup": f"{machines(row)}, {row.gpus} GPUs" + ("" if row is base else f", {percent(row.efficiency)} efficiency"),
            "shown": [f"{tenths(row.hours)} h", tenths(row.gpu_hours), money(row.cost)],
            "dearer": "" if row is base else percent(dearer(row, base)),
            "per_hour_saved": money(rate) if rate is not None else "",
            "failures": _failures(extra, cost) if extra else None,
            "qualifies": (most is None or cost <= most) and (deadline is None or hours <= deadline),
        })  # fmt: skip
    assumed = "measured, see " + str(measured) if measured else "assumed: measure it with `scaffold measure`"
    return {
        "gpu": price.gpu,
        "price": {"usd": str(price.usd), "provider": price.provider, "spot": price.spot, "age": price.age(date.today()), "source": price.source},
        "rows": entries,
        "verdict": verdict(rows),
        "assumptions": [
            f"{money(price.usd)} for one {price.gpu} and hour ({price.provider}{', spot' if price.spot else ''}; {price.age(date.today())}; {price.source})",
            f"scaling efficiency {assumed}",
            "storage and traffic are not included",
        ],
        "limits": {"max_cost": money(most) if most is not None else "", "deadline": f"{deadline} h" if deadline is not None else ""},
    }


def _failures(extra: Failures, cost: Decimal) -> dict[str, str]:
    return {
        "expected": f"{extra.expected:.2f}",
        "lost_hours": f"{extra.hours:.2f}",
        "save_every_minutes": f"{extra.interval * 60:.0f}",
        "cost_with_them": money(cost),
    }


def text(data: dict[str, Any]) -> str:
    """For the terminal."""
    head = ["set-up", "wall-clock", "GPU-hours", "cost", "dearer", "per hour saved"]
    limited = bool(data["limits"]["max_cost"] or data["limits"]["deadline"])
    rows = [tuple([*head, "qualifies"] if limited else head)]
    for row in data["rows"]:
        cells = [row["setup"], *row["shown"], row["dearer"], row["per_hour_saved"]]
        rows.append(tuple([*cells, "yes" if row["qualifies"] else "no"] if limited else cells))
    lines = [table(rows), "", data["verdict"]]
    for row in data["rows"]:
        if row["failures"]:
            f = row["failures"]
            lines.append(f"{row['setup']}: {f['expected']} failures expected, {f['lost_hours']} h lost to them and to saving every {f['save_every_minutes']} min: {f['cost_with_them']}")
    if limited and not any(row["qualifies"] for row in data["rows"]):
        lines.append(f"no set-up keeps within {' and '.join(v for v in data['limits'].values() if v)}")
    return "\n".join([*lines, *(f"- {a}" for a in data["assumptions"])])


def markdown(data: dict[str, Any]) -> str:
    """For a pull request."""
    return render("report/cost.md", data=data)


def html(data: dict[str, Any]) -> str:
    """A page of its own, with a picture of cost and time."""
    most_cost = max(Decimal(row["cost"]) for row in data["rows"]) or Decimal(1)
    most_hours = max(Decimal(row["hours"]) for row in data["rows"])
    bars = [{"label": row["setup"], "cost": float(Decimal(row["cost"]) / most_cost), "hours": float(Decimal(row["hours"]) / most_hours), "shown": row["shown"]} for row in data["rows"]]
    return render("report/cost.html", data=data, bars=bars)


def measured_efficiencies(path: Path) -> list[Decimal]:
    """Efficiencies that ``scaffold measure`` found for its largest number of processes, low and high."""
    try:
        sizes = json.loads(path.read_text(encoding="utf-8"))["sizes"]
        last = sizes[-1]["efficiency"]
        return sorted({Decimal(str(last["high"])), Decimal(str(last["low"]))}, reverse=True)
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        raise ScaffoldError(f"--measured {path}: no report of `scaffold measure --json`") from None
