"""Values that each rank measures on its own share: losses, times, results of evaluation on a part of the data."""

from __future__ import annotations

import ast

from scaffold.check.code import Code
from scaffold.check.flow import read, shared, sources
from scaffold.check.reading import Reading
from scaffold.check.shares import Share, share

_CLOCKS = {"time.time", "time.perf_counter", "time.monotonic", "time.process_time", "datetime.datetime.now", "datetime.now"}


def is_local(reading: Reading, code: Code, expr: ast.AST, clocks: bool = True) -> bool:
    """Whether a value is one rank's alone: measured on its share of the data (or, with ``clocks``, read from its clock) and not shared since."""
    made = sources(reading.program, code, expr, 2)
    if any(shared(reading.program, c, n) for c, e in made for n in ast.walk(e)):
        return False
    if not any(_measures(reading, c, n, clocks) for c, e in made for n in ast.walk(e)):
        return False
    return not any(read(e) & reading.shared_names.get(c.function(e) or c.tree, set()) for c, e in made)


def _measures(reading: Reading, code: Code, node: ast.AST, clocks: bool) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if clocks and code.dotted(node.func) in _CLOCKS:
        return True
    return isinstance(node.func, ast.Attribute) and node.func.attr in {"item", "tolist"} and not node.args and not _of_all(reading, code, node) and _of_batch(reading, code, node.func.value)


def _of_all(reading: Reading, code: Code, node: ast.AST) -> bool:
    """Measured in a loop over data that every rank reads whole."""
    loops = [n for n in ast.walk(code.function(node) or code.tree) if n in reading.loops.evaluations and node in set(ast.walk(n))]
    held = [h for loop in loops for h in reading.loops.loaders(code, loop)]
    return bool(held) and all(share(reading, h) is not Share.PART for h in held)


def _of_batch(reading: Reading, code: Code, expr: ast.AST) -> bool:
    """Made where batches are read: in a loop, or from what a model gives."""
    return any(_in_data_loop(reading, c, e) for c, e in sources(reading.program, code, expr, 2))


def _in_data_loop(reading: Reading, code: Code, expr: ast.AST) -> bool:
    return any(loop in reading.loops.training or loop in reading.loops.evaluations for loop in code.loops_of(expr))
