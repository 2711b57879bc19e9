"""The rules. One file each, found by looking through this package; nothing is registered anywhere else.

A rule module has a docstring (its documentation: what goes wrong, why, before/after, references) and

* ``ID``       its number, ``SC203``: first digit by family
* ``NAME``     a short name, ``set-epoch``
* ``SEVERITY`` ``W`` wrong result, ``H`` hang, ``C`` crash, ``S`` waste: what happens without it
* ``apply(plan, author)``  adds edits to ``author`` and yields :class:`Diagnostic` for what it cannot do
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import libcst as cst

from scaffold.source.edits import Author
from scaffold.source.tree import Source

if TYPE_CHECKING:
    from scaffold.plan import Plan


@dataclass(frozen=True)
class Diagnostic:
    """Something the user must know: ``error`` stops the conversion (wrong training is possible), ``warning`` and ``note`` do not.

    ``why`` says what would happen, ``do`` what to do about it.
    """

    rule: str
    severity: str
    path: str
    line: int
    why: str
    do: str

    @classmethod
    def at(cls, rule: str, severity: str, source: Source, node: cst.CSTNode, why: str, do: str) -> Diagnostic:
        """A diagnostic at a node."""
        return cls(rule, severity, source.name, source.line(node), why, do)


@dataclass(frozen=True)
class Rule:
    """A rule as its file declares it."""

    id: str
    name: str
    severity: str
    doc: str
    apply: Callable[[Plan, Author], Iterable[Diagnostic]]

    @property
    def summary(self) -> str:
        """First line of its documentation."""
        return self.doc.strip().split("\n")[0]


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by ID.

    Raises:
        RuntimeError: two rule files declare one ID.
    """
    rules: dict[str, Rule] = {}
    for info in pkgutil.walk_packages(__path__, __name__ + "."):
        if info.ispkg:
            continue
        module = importlib.import_module(info.name)
        if not hasattr(module, "ID"):
            continue
        if module.ID in rules:
            raise RuntimeError(f"{module.ID} is declared twice")
        rules[module.ID] = Rule(module.ID, module.NAME, module.SEVERITY, module.__doc__ or "", module.apply)
    return tuple(rules[i] for i in sorted(rules))
