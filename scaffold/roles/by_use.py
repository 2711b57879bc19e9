"""Modules that only their use gives away: what an unknown function returned, and whose ``.parameters()`` someone asks for."""

from __future__ import annotations

import libcst as cst

from scaffold.roles import api
from scaffold.source.tree import Source, dotted

_ASKING = {"parameters", "named_parameters"}


def calls_making_modules(source: Source) -> set[cst.CSTNode]:
    """The calls of a file whose result is kept under a name that is asked for its parameters."""
    asked = {
        dotted(n.func.value)
        for n in source.nodes
        if isinstance(n, cst.Call) and isinstance(n.func, cst.Attribute) and n.func.attr.value in _ASKING
    } - {None, "self"}
    found: set[cst.CSTNode] = set()
    for node in source.nodes:
        if isinstance(node, cst.Assign) and any(dotted(t.target) in asked for t in node.targets):
            made = _maker(node.value)
            if made is not None:
                found.add(made)
    return found


def _maker(value: cst.BaseExpression) -> cst.Call | None:
    """The call behind ``make().to(device).train()``."""
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value in api.MODULE_SELF_METHODS:
        if not isinstance(value.func.value, cst.Call):
            return None
        value = value.func.value
    return value if isinstance(value, cst.Call) else None
