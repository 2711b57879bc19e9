"""The prices that are known, as a table and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

from scaffold.cost.numbers import money
from scaffold.cost.prices import STALE, Layer, Price
from scaffold.report.table import table
from scaffold.strategy.catalogue import key


def _chosen(layers: Sequence[Layer], gpu: str | None) -> Iterator[tuple[Layer, Price]]:
    for layer in layers:
        for row in layer.rows:
            if gpu is None or key(row.gpu).startswith(key(gpu)):
                yield layer, row


def as_dicts(layers: Sequence[Layer], gpu: str | None, today: date) -> list[dict[str, Any]]:
    """The rows, those that count more first; prices as strings, ``None`` where unknown."""
    return [
        {
            "gpu": row.gpu,
            "provider": row.provider,
            "usd_per_gpu_hour": None if row.price is None else str(row.price),
            "spot_usd_per_gpu_hour": None if row.spot is None else str(row.spot),
            "region": row.region,
            "checked": row.checked.isoformat() if row.checked else None,
            "stale": row.stale(today),
            "source": row.source,
            "layer": layer.name,
        }
        for layer, row in _chosen(layers, gpu)
    ]


def text(layers: Sequence[Layer], gpu: str | None, today: date) -> str:
    """The rows as a table, with how old they are."""
    lines: list[tuple[str, ...]] = [("GPU", "provider", "$/GPU-hour", "spot", "checked", "", "from")]
    old = 0
    for layer, row in _chosen(layers, gpu):
        amounts = [money(v) if v is not None else "unknown" for v in (row.price, row.spot)]
        old += row.stale(today)
        lines.append((row.gpu, row.provider, *amounts, row.age(today), "old" if row.stale(today) else "", layer.name))
    note = f"\n\n{old} of {len(lines) - 1} rows are older than {STALE} days, or of an unknown day: look them up before you decide by them." if old else ""
    return table(lines, wrap=False) + note
