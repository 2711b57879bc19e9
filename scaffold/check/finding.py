"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Finding:
    """A fault at a place: ``error`` (wrong result, hang or crash), ``warning`` (waste, or wrong under conditions) or ``note``.

    ``why`` says what happens, ``do`` what to do about it. ``line`` and ``end_line`` count from 1.
    """

    path: str
    line: int
    rule: str
    severity: str
    why: str
    do: str
    end_line: int = 0
