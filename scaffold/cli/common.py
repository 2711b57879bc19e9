"""What several commands share."""

from __future__ import annotations

import gc
import sys

import click

_FEW_COLLECTIONS = 100_000
_DEEP = 20_000


def quick_start() -> None:
    """Set the interpreter up for one short job on large trees: little garbage collection, deep recursion."""
    gc.set_threshold(_FEW_COLLECTIONS)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEEP))


def rule_ids(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Rules of an option that may be repeated, or hold several with commas."""
    return tuple(x.strip().upper() for text in given for x in text.split(",") if x.strip())
