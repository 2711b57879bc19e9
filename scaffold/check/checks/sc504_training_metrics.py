"""Numbers shown of the training are the whole batch's.

Each rank's loss is that of its share of the batch. Shown on rank 0 it is noisier than the single-GPU script's, and not the same
number. Many programs mean it so: this is a note.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check.code import Code
from scaffold.check.finding import Finding
from scaffold.check.measured import is_local
from scaffold.check.reading import Reading

ID = "SC504"
NAME = "training-metrics"
_SHOWS = {"print", "add_scalar", "log", "info", "write", "set_postfix", "set_description", "writerow", "append", "add_scalars"}


def check(reading: Reading) -> Iterator[Finding]:
    """The first place of a file that shows a number of this rank's share."""
    if not reading.together:
        return
    seen: set[Code] = set()
    for called in sorted(reading.program.calls(*_SHOWS), key=lambda c: (c.code.name, c.call.lineno)):
        code, call = called
        name = code.called(call)
        if code in seen or name == "append" or "rank" in ast.unparse(call).lower():
            continue
        given = [*call.args, *(k.value for k in call.keywords)]
        if any(is_local(reading, code, part, clocks=False) for a in given for part in _parts(a)):
            seen.add(code)
            yield reading.at(ID, "note", code, call, "shows a number of this rank's share of the batch, not the whole batch's", "all_reduce it first (ReduceOp.AVG)")


def _parts(expr: ast.expr) -> list[ast.AST]:
    """What a shown text is made of."""
    if isinstance(expr, ast.JoinedStr):
        return [v.value for v in expr.values if isinstance(v, ast.FormattedValue)]
    if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute) and expr.func.attr == "format":
        return [*expr.args, *(k.value for k in expr.keywords)]
    if isinstance(expr, ast.Dict):
        return list(expr.values)
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, (ast.Mod, ast.Add)):
        return [*_parts(expr.left), *_parts(expr.right)]
    return list(expr.elts) if isinstance(expr, (ast.Tuple, ast.List)) else [expr]
