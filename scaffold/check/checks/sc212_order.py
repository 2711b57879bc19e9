"""Sets have no order, and another one in each process.

``PYTHONHASHSEED`` differs by process: class numbers made from ``list(set(names))`` differ by rank.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check.code import Code
from scaffold.check.finding import Finding
from scaffold.check.reading import Reading

ID = "SC212"
NAME = "order"


def check(reading: Reading) -> Iterator[Finding]:
    """Sets that are numbered, or made lists of, in their own order."""
    if not (reading.together or reading.starts):
        return
    for called in reading.program.calls("list", "enumerate", "tuple"):
        code, call = called
        if len(call.args) == 1 and isinstance(call.func, ast.Name) and _is_set(call.args[0]) and not _ordered_later(code, call):
            yield reading.at(ID, "error", code, call, "a set's order differs from process to process: ranks number these differently", "sorted(…) gives all ranks one order")


def _is_set(expr: ast.expr) -> bool:
    return isinstance(expr, (ast.Set, ast.SetComp)) or (isinstance(expr, ast.Call) and isinstance(expr.func, ast.Name) and expr.func.id in {"set", "frozenset"})


def _ordered_later(code: Code, call: ast.Call) -> bool:
    if any(isinstance(a, ast.Call) and isinstance(a.func, ast.Name) and a.func.id in {"sorted", "len", "max", "min", "sum", "set"} for a in code.ancestors(call) if isinstance(a, ast.expr)):
        return True
    statement = code.statement(call)
    names = {t.id for t in statement.targets if isinstance(t, ast.Name)} if isinstance(statement, ast.Assign) else set()
    return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "sort" and isinstance(n.func.value, ast.Name) and n.func.value.id in names for n in code.calls)
