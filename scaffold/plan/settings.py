"""Command-line settings: what ``add_argument`` says of the value behind ``args.name``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import libcst as cst

from scaffold.plan.places import argument_at
from scaffold.roles.facts import Facts
from scaffold.roles.values import Val
from scaffold.source.tree import Source


@dataclass(frozen=True)
class Setting:
    """One ``add_argument`` call: type name (``str`` if none is given) and literal default."""

    source: Source
    node: cst.Call
    type: str
    default: object


@lru_cache(maxsize=8)
def settings(facts: Facts) -> dict[str, Setting]:
    """The command line's settings by attribute name."""
    found: dict[str, Setting] = {}
    for source in facts.project.sources:
        for node in source.nodes:
            if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "add_argument":
                name = _attribute(node)
                if name:
                    found.setdefault(name, Setting(source, node, _type(source, node), _default(node)))
    return found


def setting_of(facts: Facts, value: Val) -> Setting | None:
    """The setting that a value is, if it is one and nothing else."""
    names = [t.of for t in value.tags if t.kind == "config"]
    return settings(facts).get(str(names[0])) if len(names) == 1 and len(value.tags) == 1 else None


def _attribute(node: cst.Call) -> str:
    dest = argument_at(node, 99, "dest")
    if dest is not None and isinstance(dest.value, cst.SimpleString):
        return str(dest.value.evaluated_value)
    flags = [str(a.value.evaluated_value) for a in node.args if a.keyword is None and isinstance(a.value, cst.SimpleString)]
    long = next((f for f in flags if f.startswith("--")), flags[0] if flags else "")
    return long.lstrip("-").replace("-", "_")


def _type(source: Source, node: cst.Call) -> str:
    given = argument_at(node, 99, "type")
    if given is not None:
        return source.code(given.value)
    default = _default(node)
    return type(default).__name__ if isinstance(default, (int, float)) else "str"


def _default(node: cst.Call) -> object:
    given = argument_at(node, 99, "default")
    literal = given.value if given is not None else None
    if isinstance(literal, (cst.SimpleString, cst.Integer, cst.Float)):
        return literal.evaluated_value
    if isinstance(literal, cst.Name):
        return {"True": True, "False": False}.get(literal.value)
    return None
