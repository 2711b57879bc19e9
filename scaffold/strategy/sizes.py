"""Sizes as people write them. GB is 10^9 bytes, GiB is 2^30: the two are never mixed."""

from __future__ import annotations

import re

from scaffold.errors import ScaffoldError

GIB = 1 << 30
GB = 10**9
MIB = 1 << 20

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_COUNTS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}


def parse_bytes(text: str) -> int:
    """``24GiB``, ``80GB`` or ``1000`` (bytes) as bytes. Raises ``ScaffoldError`` for anything else, ``24G`` included."""
    match = re.fullmatch(r"([\d_.]+(?:e\d+)?)\s*([a-z]*)", text.strip().lower())
    unit = _UNITS.get(match[2]) if match else None
    if match is None or unit is None:
        raise ScaffoldError(f"{text!r} is no size in bytes: write a unit, for instance 24GiB (2^30 bytes) or 24GB (10^9)")
    return int(_number(match[1], text) * unit)


def parse_count(text: str) -> int:
    """``8B``, ``350M`` or ``1.3e9`` as a number. Raises ``ScaffoldError`` for anything else."""
    match = re.fullmatch(r"([\d_.]+(?:e\d+)?)\s*([kmbt]?)", text.strip().lower())
    if match is None:
        raise ScaffoldError(f"{text!r} is no number of parameters: write for instance 350M or 8B")
    return int(round(_number(match[1], text) * _COUNTS[match[2]]))


def _number(digits: str, text: str) -> float:
    try:
        value = float(digits)
    except ValueError:
        raise ScaffoldError(f"{text!r} is no number") from None
    if value <= 0:
        raise ScaffoldError(f"{text!r}: a size above zero is needed")
    return value


def show_bytes(value: float) -> str:
    """Bytes in GB (10^9), as data sheets and the ZeRO paper count: ``16.0 GB``, ``420 MB``."""
    if value >= GB:
        return f"{value / GB:,.1f} GB"
    return f"{value / 10**6:,.0f} MB" if value >= 10**6 else f"{value / 1000:,.0f} kB"


def show_count(value: int) -> str:
    """A number of parameters: ``8.0B``, ``124.4M``."""
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= size:
            return f"{value / size:,.1f}{unit}"
    return str(value)
