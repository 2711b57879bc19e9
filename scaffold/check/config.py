"""``[tool.scaffold]`` of a ``pyproject.toml``: ``select``, ``ignore``, ``per-file-ignores`` and ``exclude``."""

from __future__ import annotations

import fnmatch
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scaffold.errors import ScaffoldError

_KEYS = ("select", "ignore", "per-file-ignores", "exclude")
_OTHERS = ("price", "prices")
"""Settings of the same table that ``scaffold cost`` reads."""


@dataclass(frozen=True)
class Config:
    """Which rules are reported where. A rule is named in full (``SC203``) or by its beginning (``SC2``)."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file: dict[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    root: Path = field(default_factory=Path.cwd)

    def wants(self, rule: str, path: Path) -> bool:
        """Whether a rule is reported for a file."""
        if self.select and not rule.startswith(self.select):
            return False
        if self.ignore and rule.startswith(self.ignore):
            return False
        return not any(rule.startswith(rules) for pattern, rules in self.per_file.items() if rules and self._matches(path, pattern))

    def excludes(self, path: Path) -> bool:
        """Whether a file is left out altogether."""
        return any(self._matches(path, pattern) for pattern in self.exclude)

    def _matches(self, path: Path, pattern: str) -> bool:
        full = path.resolve()
        relative = full.relative_to(self.root.resolve()).as_posix() if full.is_relative_to(self.root.resolve()) else full.as_posix()
        parts = relative.split("/")
        return fnmatch.fnmatch(relative, pattern) or fnmatch.fnmatch(path.name, pattern) or any(
            fnmatch.fnmatch("/".join(parts[: i + 1]), pattern.rstrip("/")) for i in range(len(parts))
        )  # fmt: skip


def configured(start: Path, select: tuple[str, ...] = (), ignore: tuple[str, ...] = ()) -> Config:
    """The settings of the nearest ``pyproject.toml`` at or above ``start`` that has them; a command line's ``select`` takes their place, its ``ignore`` adds.

    Raises:
        ScaffoldError: the file is no TOML, or a setting is none of these or has another type.
    """
    here = start.resolve()
    for folder in (here, *here.parents) if here.is_dir() else here.parents:
        file = folder / "pyproject.toml"
        table = _table(file) if file.is_file() else None
        if table is not None:
            return Config(
                select or _rules(file, "select", table.get("select", [])),
                (*ignore, *_rules(file, "ignore", table.get("ignore", []))),
                {p: _rules(file, f"per-file-ignores.{p}", r) for p, r in _mapping(file, table.get("per-file-ignores", {})).items()},
                _texts(file, "exclude", table.get("exclude", [])),
                folder,
            )
    return Config(select, ignore)


def _table(file: Path) -> dict[str, Any] | None:
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScaffoldError(f"{file}: no TOML: {error}; mend it") from error
    tool = data.get("tool", {})
    table = tool.get("scaffold") if isinstance(tool, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise ScaffoldError(f"{file}: [tool.scaffold] must be a table")
    for key in table:
        if key not in (*_KEYS, *_OTHERS):
            raise ScaffoldError(f"{file}: [tool.scaffold] has no setting {key!r}; there are {', '.join(_KEYS)}")
    return table


def _mapping(file: Path, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ScaffoldError(f"{file}: [tool.scaffold] per-file-ignores must be a table of patterns, each with a list of rules")
    return value


def _texts(file: Path, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise ScaffoldError(f"{file}: [tool.scaffold] {key} must be a list of strings")
    return tuple(value)


def _rules(file: Path, key: str, value: object) -> tuple[str, ...]:
    rules = tuple(r.upper() for r in _texts(file, key, value))
    for rule in rules:
        if not rule.startswith("SC"):
            raise ScaffoldError(f"{file}: [tool.scaffold] {key}: {rule!r} is no rule; rules are named SC203, or SC2 for all of a family")
    return rules
