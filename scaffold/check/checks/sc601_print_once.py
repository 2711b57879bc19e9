"""Output comes once.

A ``print`` in a training or evaluation loop that all ranks come to shows every line as many times as there are ranks. Taken for
right: lines that name the rank, programs that replace ``print`` on the other ranks, and output before the loops begin.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check.code import Code
from scaffold.check.effects import on_all_ranks
from scaffold.check.finding import Finding
from scaffold.check.program import Called
from scaffold.check.reading import Reading

ID = "SC601"
NAME = "print-once"


def check(reading: Reading) -> Iterator[Finding]:
    """Prints of all ranks: one finding a file, at the first, with their number."""
    program = reading.program
    if not program.trains or any("builtins.print" in c.text or "__builtin__.print" in c.text or "builtin_print" in c.text for c in program.codes):
        return
    looped = {n for loop, code in reading.loops.training.items() for _, n in program.reach(code, loop.body)}
    looped |= {n for loop, code in reading.loops.evaluations.items() for n in _function_body(code, loop)}
    looped |= {n for loop, code in reading.loops.training.items() if code.function(loop) is not None for n in _function_body(code, loop) if getattr(n, "lineno", 0) > loop.lineno}
    by_file: dict[Code, list[Called]] = {}
    for called in on_all_ranks(reading, "print"):
        if called.call in looped and isinstance(called.call.func, ast.Name) and not _names_rank(reading, called):
            by_file.setdefault(called.code, []).append(called)
    for code, calls in by_file.items():
        first = min(calls, key=lambda c: c.call.lineno)
        others = f" (and {len(calls) - 1} more in this file)" if len(calls) > 1 else ""
        yield reading.at(ID, "warning", code, first.call, f"every rank prints this{others}: each line comes as many times as there are ranks", "print on rank 0 alone")


def _function_body(code: Code, loop: ast.AST) -> Iterator[ast.AST]:
    function = code.function(loop)
    yield from ast.walk(function if function is not None else loop)


def _names_rank(reading: Reading, called: Called) -> bool:
    text = ast.unparse(called.call).lower()
    return "rank" in text or "gpu" in text or any(reading.values.differs(called.code, a) for a in called.call.args) or any(k.arg == "file" for k in called.call.keywords)
