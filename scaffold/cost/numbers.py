"""Decimals from text, ranges of them, and how they are shown. Money is never a binary float."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

from scaffold.errors import ScaffoldError

ONE = Decimal(1)
CENT = Decimal("0.01")
_LARGEST = Decimal(10) ** 12


@dataclass(frozen=True)
class Range:
    """Three values of one quantity, ``low <= expected <= high``."""

    low: Decimal
    expected: Decimal
    high: Decimal

    @classmethod
    def exactly(cls, value: Decimal) -> Range:
        """The range of a number that is taken as it is."""
        return cls(value, value, value)

    @property
    def exact(self) -> bool:
        """Whether the three are one."""
        return self.low == self.high

    def times(self, other: Range) -> Range:
        """The product of two ranges of positive numbers."""
        return Range(self.low * other.low, self.expected * other.expected, self.high * other.high)

    def map(self, change: Callable[[Decimal], Decimal]) -> Range:
        """The range of an increasing function."""
        return Range(change(self.low), change(self.expected), change(self.high))

    def as_dict(self, digits: Decimal) -> dict[str, str]:
        """Plain data, rounded to ``digits``."""
        return {name: str(rounded(getattr(self, name), digits)) for name in ("low", "expected", "high")}


def rounded(value: Decimal, digits: Decimal = CENT) -> Decimal:
    """The nearest multiple of ``digits``; halves away from zero, as on a bill."""
    return value.quantize(digits, ROUND_HALF_UP)


def decimal(text: str, what: str) -> Decimal:
    """The finite number that a text holds.

    Raises:
        ScaffoldError: it holds none; ``what`` says where it was found.
    """
    try:
        value = Decimal(text.strip().replace("_", ""))
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or abs(value) > _LARGEST:
        raise ScaffoldError(f"{what} {text!r}: is not a number; write it as 10 or 2.60")
    return value


def positive(text: str, what: str) -> Decimal:
    """The same for a number above zero.

    Raises:
        ScaffoldError: it is zero, negative or no number.
    """
    value = decimal(text, what)
    if value <= 0:
        raise ScaffoldError(f"{what} {text}: must be above 0")
    return value


def spread(text: str, what: str) -> Range:
    """A range written as one positive number, as ``low,high`` or as ``low,expected,high``.

    Raises:
        ScaffoldError: other numbers, or not in ascending order.
    """
    values = [positive(part, what) for part in text.split(",")]
    if len(values) > 3 or values != sorted(values):
        raise ScaffoldError(f"{what} {text}: give one number, or low,high, or low,expected,high in this order")
    middle = values[len(values) // 2] if len(values) != 2 else (values[0] + values[1]) / 2
    return Range(values[0], middle, values[-1])


def median(values: Sequence[Decimal]) -> Decimal:
    """The middle one of the values; of an even number the lower of the two, so that it is one of them."""
    return sorted(values)[(len(values) - 1) // 2]


def money(text: str | Decimal) -> str:
    """Dollars and cents: ``$1,231.11``."""
    value = rounded(Decimal(text))
    return f"{'-' if value < 0 else ''}${abs(value):,.2f}"


def hours(text: str | Decimal) -> str:
    """Hours with one decimal: ``5.6 h``; below an hour, minutes; below ten minutes, with one decimal."""
    value = Decimal(text)
    if 0 < abs(value) < 1:
        return f"{rounded(value * 60, ONE if abs(value) * 6 >= 1 else Decimal('0.1'))} min"
    return f"{rounded(value, Decimal('0.1')):,} h"


def percent(text: str | Decimal) -> str:
    """A share as a whole percentage: ``11%``."""
    return f"{rounded(Decimal(text) * 100, ONE)}%"
