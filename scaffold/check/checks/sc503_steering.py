"""All ranks take the same branch.

Early stopping, a time limit or a stop on NaN decided on one rank's own number lets that rank leave: the others wait in their
next collective. ``ReduceLROnPlateau`` fed with one rank's number gives ranks different learning rates. Taken for right: numbers
that went through a collective, or were measured on all of the data.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.code import own
from scaffold.check.finding import Finding
from scaffold.check.loops import leaves
from scaffold.check.measured import is_local
from scaffold.check.reading import Reading

ID = "SC503"
NAME = "steering"


def check(reading: Reading) -> Iterator[Finding]:
    """Ways out of the training, and schedules, on local numbers."""
    if not reading.together:
        return
    for called in reading.program.calls("step"):
        func = called.call.func
        if isinstance(func, ast.Attribute) and called.call.args and reading.values.has(called.code, func.value, kinds.PLATEAU) and is_local(reading, called.code, called.call.args[0]):
            yield reading.at(ID, "error", called.code, called.call, "ReduceLROnPlateau is fed with this rank's own number: ranks go on with different learning rates", "all_reduce the number first")
    seen: set[ast.AST] = set()
    for loop, code in reading.loops.training.items():
        for node in own(loop):
            if node in seen or not isinstance(node, ast.If) or not any(isinstance(n, ast.Raise) or leaves(code, n, loop) for s in node.body for n in own(s)):
                continue
            seen.add(node)
            if not reading.values.differs(code, node.test) and is_local(reading, code, node.test):
                yield reading.at(ID, "error", code, node.test, "this rank leaves on a number of its own: the others wait for it in their next collective", "let all ranks decide on one number (all_reduce or broadcast it)")
