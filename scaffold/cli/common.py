"""What several commands share."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_FEW_COLLECTIONS = 100_000
_DEEP = 20_000


def arguments_option(function: Decorated) -> Decorated:
    """Arguments of the user's own script, after ``--``."""
    return click.argument("arguments", nargs=-1, type=click.UNPROCESSED)(function)


def quick_start() -> None:
    """Set the interpreter up for one short job on large trees: little garbage collection, deep recursion."""
    gc.set_threshold(_FEW_COLLECTIONS)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEEP))
