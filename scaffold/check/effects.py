"""What a process writes, and whether each process writes something of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check.code import Code, argument, parameters, passed, tail
from scaffold.check.program import Called
from scaffold.check.reading import Reading


def on_all_ranks(reading: Reading, *names: str) -> Iterator[Called]:
    """Calls of these names that every rank comes to."""
    if not (reading.starts or reading.wraps or reading.program.calls("DistributedSampler")):
        return
    for called in reading.program.calls(*names):
        if not reading.alone(called.code, called.call) and reading.places.differs(called.code, called.call) is None:
            yield called


def own_path(reading: Reading, code: Code, path: ast.expr | None) -> bool:
    """Whether ranks write to paths of their own."""
    return path is not None and (reading.values.differs(code, path) or "rank" in ast.unparse(path) or _nowhere(path) or _never_given(reading, code, path))


def _never_given(reading: Reading, code: Code, path: ast.expr) -> bool:
    """A parameter with a default that no call of the function gives."""
    function = code.function(path)
    if function is None or not isinstance(path, ast.Name) or path.id not in {a.arg for a in parameters(function)}:
        return False
    callers = reading.program.callers.get(function, [])
    return bool(callers) and all(passed(function, c.call, path.id) is None and not _spreads(c.call) for c in callers)


def _spreads(call: ast.Call) -> bool:
    """Arguments that come out of a list or a dictionary."""
    return any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)


def _nowhere(path: ast.expr) -> bool:
    return ast.unparse(path) in {"os.devnull", "'/dev/null'"} or (isinstance(path, ast.Call) and tail(ast.unparse(path.func)) in {"BytesIO", "StringIO"})


def writes(called: Called) -> ast.expr | None:
    """The path that ``open`` opens to write."""
    mode = argument(called.call, "mode", 1)
    if isinstance(called.call.func, ast.Attribute):
        mode = argument(called.call, "mode", 0)
        path: ast.expr | None = called.call.func.value
    else:
        path = argument(called.call, "file", 0)
    writing = isinstance(mode, ast.Constant) and isinstance(mode.value, str) and any(c in mode.value for c in "wax")
    return path if writing else None
