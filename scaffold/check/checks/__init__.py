"""The checks. One kind of fault a file, found by looking through this package; nothing is registered anywhere else.

A module has a docstring (what goes wrong, and what is taken for right), ``ID``, shared with the rule that makes a conversion
right in the same respect, ``NAME``, and ``check(reading)``, which yields :class:`~scaffold.check.finding.Finding`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from scaffold.check.finding import Finding
from scaffold.check.reading import Reading


@dataclass(frozen=True)
class Check:
    """A check as its file declares it."""

    id: str
    name: str
    doc: str
    check: Callable[[Reading], Iterable[Finding]]


@cache
def all_checks() -> tuple[Check, ...]:
    """Every check, by ID and name."""
    found = []
    for info in pkgutil.iter_modules(__path__, __name__ + "."):
        module = importlib.import_module(info.name)
        found.append(Check(module.ID, module.NAME, module.__doc__ or "", module.check))
    return tuple(sorted(found, key=lambda c: (c.id, c.name)))
