"""Prices as dated rows. A price that is not known is never zero: it is asked for."""

from __future__ import annotations

import csv
import os
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from scaffold.errors import ScaffoldError

STALE = 60
"""Days after which a price is flagged."""


@dataclass(frozen=True)
class Price:
    """US dollars for one GPU and hour, from ``provider``, read on ``checked`` at ``source``."""

    gpu: str
    provider: str
    usd: Decimal
    spot: bool
    checked: date | None
    source: str

    def age(self, today: date) -> str:
        """``checked 2026-11-01``, with a word where that is long ago or not known."""
        if self.checked is None:
            return "date unknown"
        days = (today - self.checked).days
        return f"checked {self.checked}" + (f", {days} days ago: check it again" if days > STALE else "")


def embedded() -> list[Price]:
    """The rows that come with scaffold."""
    return _read_toml(Path(__file__).parent / "prices.toml")


def user_file() -> Path:
    """Where a user's own prices lie."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "scaffold" / "prices.toml"


def imported_by_user() -> list[Price]:
    """The rows of the user's own file, if there is one."""
    return _of_file(user_file()) if user_file().exists() else []


def price_for(gpu: str, price: str | None, file: Path | None, spot: bool = False) -> Price:
    """The price of a GPU: ``--price``, then ``--prices``, the project's ``pyproject.toml``, the user's file, the embedded rows.

    Raises ``ScaffoldError`` where there is none.
    """
    if price is not None:
        return Price(gpu, "given", _amount(price), spot, None, "--price")
    for rows in (_of_file(file), _of_project(Path("pyproject.toml")), imported_by_user(), embedded()):
        found = [p for p in rows if _same(p.gpu, gpu) and p.spot == spot]
        if found:
            return min(found, key=lambda p: p.usd)
    known = sorted({p.gpu for p in embedded()})
    raise ScaffoldError(f"no {'spot ' if spot else ''}price of {gpu} is known ({', '.join(known)} are): give it with --price 2.60, per GPU and hour")


def _same(a: str, b: str) -> bool:
    plain = ["".join(c for c in x.lower() if c.isalnum()) for x in (a, b)]
    return plain[0] == plain[1] or plain[0].startswith(plain[1]) or plain[1].startswith(plain[0])


def _amount(text: str) -> Decimal:
    try:
        value = Decimal(str(text).removeprefix("$"))
    except InvalidOperation:
        raise ScaffoldError(f"{text!r} is no price: write for instance 2.60, US dollars for one GPU and hour") from None
    if not value.is_finite() or value < 0:
        raise ScaffoldError(f"{text}: a price cannot be below zero")
    return value


def _of_file(path: Path | None) -> list[Price]:
    if path is None:
        return []
    if not path.is_file():
        raise ScaffoldError(f"{path}: no such file with prices")
    return imported(path) if path.suffix == ".csv" else _read_toml(path)


def _of_project(path: Path) -> list[Price]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("scaffold", {}).get("prices", {})
    except (OSError, tomllib.TOMLDecodeError):
        return []
    return [Price(gpu, "pyproject.toml", _amount(str(usd)), False, None, str(path)) for gpu, usd in table.items()]


def _read_toml(path: Path) -> list[Price]:
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["price"]
        return [Price(r["gpu"], r["provider"], _amount(r["usd"]), r.get("spot", False), r.get("checked"), r.get("source", str(path))) for r in rows]
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise ScaffoldError(f"{path}: not a file of prices ({error}); each row is [[price]] with gpu, provider and usd") from None


def imported(path: Path) -> list[Price]:
    """The rows of a SkyPilot catalogue or a gpuhunt export (CSV), per GPU. Raises ``ScaffoldError`` for other files."""
    with path.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        columns = set(reader.fieldnames or ())
        if {"AcceleratorName", "AcceleratorCount", "Price"} <= columns:
            rows = list(_sky(reader, path))
        elif {"gpu_name", "gpu_count", "price"} <= columns:
            rows = list(_gpuhunt(reader, path))
        else:
            raise ScaffoldError(f"{path}: neither a SkyPilot catalogue (AcceleratorName, AcceleratorCount, Price) nor a gpuhunt export (gpu_name, gpu_count, price)")
    return _cheapest(rows)


def _sky(reader: Iterable[dict[str, Any]], path: Path) -> Iterable[Price]:
    for row in reader:
        count = _number(row["AcceleratorCount"])
        for column, spot in (("Price", False), ("SpotPrice", True)):
            usd = _number(row.get(column))
            if count and usd:
                yield Price(row["AcceleratorName"], path.stem, usd / count, spot, _modified(path), str(path))


def _gpuhunt(reader: Iterable[dict[str, Any]], path: Path) -> Iterable[Price]:
    for row in reader:
        count, usd = _number(row["gpu_count"]), _number(row["price"])
        if count and usd and row["gpu_name"]:
            yield Price(row["gpu_name"], row.get("provider") or path.stem, usd / count, str(row.get("spot")).lower() == "true", _modified(path), str(path))


def _modified(path: Path) -> date:
    return date.fromtimestamp(path.stat().st_mtime)


def _number(text: str | None) -> Decimal | None:
    try:
        value = Decimal(text or "")
    except InvalidOperation:
        return None
    return value if value > 0 else None


def _cheapest(rows: Sequence[Price]) -> list[Price]:
    """One row for each GPU, provider and kind."""
    best: dict[tuple[str, str, bool], Price] = {}
    for row in rows:
        key = (row.gpu, row.provider, row.spot)
        if key not in best or row.usd < best[key].usd:
            best[key] = row
    return sorted(best.values(), key=lambda p: (p.gpu, p.usd))


def written(rows: Sequence[Price]) -> str:
    """Rows as a file that ``--prices`` reads."""
    text = []
    for row in rows:
        when = f"checked = {row.checked}\n" if row.checked else ""
        text.append(f'[[price]]\ngpu = "{row.gpu}"\nprovider = "{row.provider}"\nusd = "{row.usd:.4f}"\nspot = {str(row.spot).lower()}\n{when}source = "{row.source}"\n')
    return "\n".join(text)
