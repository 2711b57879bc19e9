"""One run folder: a name made from the clock is rank 0's on every rank.

Ranks reach the line at different seconds and make folders of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check.code import Code
from scaffold.check.effects import on_all_ranks, own_path
from scaffold.check.finding import Finding
from scaffold.check.flow import shared, sources
from scaffold.check.reading import Reading

ID = "SC606"
NAME = "run-names"
_CLOCK = {"strftime", "isoformat", "ctime", "asctime", "uuid4", "uuid1", "token_hex", "getpid"}


def check(reading: Reading) -> Iterator[Finding]:
    """Paths with the time in them that every rank writes to."""
    seen: set[ast.AST] = set()
    for called in on_all_ranks(reading, "makedirs", "mkdir", "SummaryWriter", "open", "FileHandler", "save"):
        code, call = called
        path = call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else None
        if path is None or own_path(reading, code, path):
            continue
        made = sources(reading.program, code, path, 1)
        if any(shared(reading.program, c, n) for c, e in made for n in ast.walk(e)):
            continue
        clock = next(((c, n) for c, e in made for n in ast.walk(e) if _reads_clock(c, n)), None)
        if clock is not None and clock[1] not in seen:
            seen.add(clock[1])
            yield reading.at(ID, "warning", clock[0], clock[1], "ranks read different names here, and each writes to a place of its own", "make the name on rank 0 and broadcast it (broadcast_object_list)")


def _reads_clock(code: Code, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and code.called(node) in _CLOCK
