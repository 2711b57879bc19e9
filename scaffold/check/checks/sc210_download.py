"""One process of a machine downloads.

Ranks that download and unpack into one folder at once read each other's half-written files.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.code import Code, own_of, tail
from scaffold.check.effects import on_all_ranks
from scaffold.check.finding import Finding
from scaffold.check.flow import body_of
from scaffold.check.reading import Reading

ID = "SC210"
NAME = "download"


def check(reading: Reading) -> Iterator[Finding]:
    """``download=True`` on all ranks with no barrier around."""
    names = {tail(code.dotted(call.func)) for code in reading.program.codes for call in code.calls if any(k.arg == "download" for k in call.keywords)}
    for called in on_all_ranks(reading, *sorted(names - {""})):
        code, call = called
        given = next((k.value for k in call.keywords if k.arg == "download"), None)
        if isinstance(given, ast.Constant) and given.value is True and not _takes_turns(code, call):
            yield reading.at(ID, "warning", code, call, "ranks download into one folder at once: they read half-written files", "download on local rank 0 first, then a barrier")


def _takes_turns(code: Code, call: ast.Call) -> bool:
    if any(isinstance(a, ast.With) and any(word in ast.unparse(i.context_expr) for i in a.items for word in ("first", "Lock", "lock", "barrier")) for a in code.ancestors(call)):
        return True
    return any(isinstance(n, ast.Call) and n.lineno < call.lineno and tail(code.dotted(n.func)) in kinds.COLLECTIVES for n in own_of(body_of(code, call)))
