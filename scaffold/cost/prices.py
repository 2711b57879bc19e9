"""Prices of GPU-hours: dated rows, in a CSV file of one format or read from one of two others."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path

from scaffold.cost.numbers import Range, median, rounded
from scaffold.errors import ScaffoldError
from scaffold.strategy.catalogue import key

STALE = 60
"""Days after which a price has to be looked up again."""

COLUMNS = ("gpu", "provider", "usd_per_gpu_hour", "spot_usd_per_gpu_hour", "region", "checked", "source")
_SKYPILOT = {"InstanceType", "AcceleratorName", "AcceleratorCount", "Price"}
_GPUHUNT = {"instance_name", "gpu_count", "gpu_name", "price", "spot"}
_FINE = Decimal("0.0001")
_SMALLEST = {"a100": "A100-40GB", "v100": "V100-16GB"}
_LARGER = {("a100", 80): "A100-80GB", ("v100", 32): "V100-32GB"}


@dataclass(frozen=True)
class Price:
    """Dollars for an hour of one GPU, on demand and as spot. ``None`` is unknown; zero is never stored."""

    gpu: str
    provider: str
    price: Decimal | None
    spot: Decimal | None = None
    region: str = ""
    checked: date | None = None
    source: str = ""

    def stale(self, today: date) -> bool:
        """Whether the price is too old, or of an unknown day."""
        return self.checked is None or (today - self.checked).days > STALE

    def age(self, today: date) -> str:
        """``2026-10-27 (35 days ago)``, or that the day is unknown."""
        if self.checked is None:
            return "date unknown"
        days = (today - self.checked).days
        return f"{self.checked} ({days} day{'s' * (days != 1)} ago)"

    def cells(self) -> list[str]:
        """A line of the CSV file, in the order of ``COLUMNS``."""
        known = ["" if value is None else str(value) for value in (self.price, self.spot)]
        return [self.gpu, self.provider, *known, self.region, str(self.checked or ""), self.source]


def known(text: str | None) -> Decimal | None:
    """A price in a catalogue; empty, zero, negative and what is no number are unknown."""
    try:
        value = Decimal((text or "").strip())
    except InvalidOperation:
        return None
    return value if value.is_finite() and value > 0 else None


def embedded() -> list[Price]:
    """The rows that come with scaffold."""
    return read(Path(__file__).with_name("prices.csv"))


def read(path: Path, provider: str = "", day: date | None = None) -> list[Price]:
    """The rows of a CSV file in scaffold's, SkyPilot's or gpuhunt's format, told apart by their columns.

    ``provider`` and ``day`` are for the latter two, which hold neither; without them the file's name and its day.
    Of those, the cheapest row of each GPU is kept, and instances that are billed apart from their GPUs are left out.

    Raises:
        ScaffoldError: the file cannot be read, is in none of the formats, or a row of scaffold's own is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        modified = date.fromtimestamp(path.stat().st_mtime)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise ScaffoldError(f"{path}: cannot be read as prices ({reason}); give a CSV file") from None
    lines = list(csv.DictReader(io.StringIO(text)))
    columns = set(lines[0]) if lines else set()
    if {"gpu", "provider"} <= columns and columns & {"usd_per_gpu_hour", "spot_usd_per_gpu_hour"}:
        return [_own(line, f"{path}:{number}") for number, line in enumerate(lines, 2)]
    name = provider or (path.resolve().parent.name if path.stem == "vms" else path.stem)
    if columns >= _SKYPILOT:
        found = _cheapest(_skypilot(lines), name, day or modified, f"SkyPilot catalog {path.name}")
    elif columns >= _GPUHUNT:
        found = _cheapest(_gpuhunt(lines), name, day or modified, f"gpuhunt catalog {path.name}")
    else:
        raise ScaffoldError(f"{path}: no prices; the first line must name the columns {', '.join(COLUMNS)}, or those of SkyPilot or gpuhunt")
    if not found:
        raise ScaffoldError(f"{path}: holds no price of a GPU")
    return found


def write(rows: Iterable[Price]) -> str:
    """The text of a CSV file in scaffold's format."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(row.cells() for row in rows)
    return out.getvalue()


def _own(line: Mapping[str, str | None], place: str) -> Price:
    price, spot = (_price(line.get(column), f"{place}: {column}") for column in COLUMNS[2:4])
    if price is None and spot is None:
        raise ScaffoldError(f"{place}: neither usd_per_gpu_hour nor spot_usd_per_gpu_hour is known; leave the row out")
    text = (line.get("checked") or "").strip()
    try:
        checked = date.fromisoformat(text) if text else None
    except ValueError:
        raise ScaffoldError(f"{place}: checked is {text!r}; write a day as 2026-10-27") from None
    gpu, provider = (line.get("gpu") or "").strip(), (line.get("provider") or "").strip()
    if not gpu or not provider:
        raise ScaffoldError(f"{place}: names no {'provider' if gpu else 'gpu'}")
    return Price(gpu, provider, price, spot, (line.get("region") or "").strip(), checked, (line.get("source") or "").strip())


def _price(text: str | None, place: str) -> Decimal | None:
    if not (text or "").strip():
        return None
    value = known(text)
    if value is None:
        raise ScaffoldError(f"{place} is {text!r}; write dollars above 0, or leave it empty where it is unknown")
    return value


_Offer = tuple[str, str, bool, Decimal]
"""GPU, region, whether it is spot, dollars for an hour of one GPU."""


def _skypilot(lines: Sequence[Mapping[str, str]]) -> Iterator[_Offer]:
    for line in lines:
        count, gpu = known(line["AcceleratorCount"]), line["AcceleratorName"]
        if not (count and gpu and line["InstanceType"]):
            continue
        for spot, column in ((False, "Price"), (True, "SpotPrice")):
            price = known(line.get(column))
            if price:
                yield named(gpu), line.get("Region") or "", spot, price / count


def _gpuhunt(lines: Sequence[Mapping[str, str]]) -> Iterator[_Offer]:
    for line in lines:
        count, gpu, price = known(line["gpu_count"]), line["gpu_name"], known(line["price"])
        if count and gpu and price:
            memory = known(line.get("gpu_memory"))
            spot = (line["spot"] or "").strip().lower() == "true"
            yield named(gpu, memory), line.get("location") or "", spot, price / count


def named(gpu: str, memory: Decimal | None = None) -> str:
    """A catalogue's name of a GPU with its memory, where there are several."""
    plain = key(gpu)
    if memory and (plain, int(memory)) in _LARGER:
        return _LARGER[plain, int(memory)]
    return _SMALLEST.get(plain, gpu)


def _cheapest(offers: Iterable[_Offer], provider: str, day: date, source: str) -> list[Price]:
    best: dict[tuple[str, bool], tuple[Decimal, str]] = {}
    for gpu, region, spot, price in offers:
        held = best.get((gpu, spot))
        if held is None or (price, region) < held:
            best[gpu, spot] = (price, region)
    rows = []
    for (gpu, spot), (price, region) in sorted(best.items()):
        exact = rounded(price, _FINE)
        steady, cheap = (None, exact) if spot else (exact, None)
        rows.append(Price(gpu, provider, steady, cheap, region, day, source))
    return rows


@dataclass(frozen=True)
class Layer:
    """Prices from one place; ``name`` is shown."""

    name: str
    rows: tuple[Price, ...]


@dataclass(frozen=True)
class Found:
    """What is known of a GPU's price: the rows that count, and where they are from."""

    gpu: str
    rows: tuple[Price, ...]
    layer: str

    def steady(self) -> Range | None:
        """Dollars on demand: of the cheapest provider, of the middle one, of the dearest."""
        return _range([row.price for row in self.rows if row.price is not None])

    def spot(self) -> Range | None:
        """The same for spot."""
        return _range([row.spot for row in self.rows if row.spot is not None])


def _range(values: list[Decimal]) -> Range | None:
    return Range(min(values), median(values), max(values)) if values else None


def find(gpu: str, layers: Sequence[Layer], provider: str | None = None) -> Found:
    """The prices of a GPU in the first layer that has any, those of one provider if it is named.

    Raises:
        ScaffoldError: no layer has one, or the name is that of several GPUs; the message names the nearest.
    """
    wanted = key(gpu)
    for layer in layers:
        rows = [r for r in layer.rows if provider is None or r.provider.lower() == provider.lower()]
        names = {r.gpu for r in rows if key(r.gpu) == wanted} or {r.gpu for r in rows if key(r.gpu).startswith(wanted)}
        if len({key(name) for name in names}) > 1:
            raise ScaffoldError(f"--gpu {gpu}: is several GPUs: {', '.join(sorted(names))}")
        if names:
            return Found(sorted(names)[0], tuple(r for r in rows if r.gpu in names), layer.name)
    raise _unknown(gpu, layers, provider)


def _unknown(gpu: str, layers: Sequence[Layer], provider: str | None) -> ScaffoldError:
    rows = [row for layer in layers for row in layer.rows]
    if provider is not None:
        sellers = sorted({r.provider for r in rows if key(r.gpu).startswith(key(gpu))})
        if sellers:
            return ScaffoldError(f"--provider {provider}: no price of {gpu} from there; there are those of {', '.join(sellers)}")
    names = {key(row.gpu): row.gpu for row in rows}
    near = difflib.get_close_matches(key(gpu), names, 3, 0.4)
    shown = [names[n] for n in near] or sorted(names.values())
    return ScaffoldError(f"--gpu {gpu}: its price is unknown; known are {', '.join(shown)}; give --price, or --prices FILE")
