"""No rank leaves alone.

A ``return``, ``break``, ``sys.exit`` or ``os._exit`` in a training loop under a test on the rank leaves the others waiting in
their next collective.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check.code import LOOPS, SCOPES, Code, own, tail
from scaffold.check.finding import Finding
from scaffold.check.reading import Reading

ID = "SC103"
NAME = "rank-leaves"


def check(reading: Reading) -> Iterator[Finding]:
    """Ways out of a training loop under a test on the rank."""
    seen: set[ast.AST] = set()
    for loop, code in reading.loops.training.items():
        for node in own(loop):
            if node in seen or not _leaves(code, node, loop):
                continue
            seen.add(node)
            test = reading.places.differs(code, node)
            if test is not None and test in set(ast.walk(loop)):
                yield reading.at(
                    ID, "error", code, node, f"leaves the training under a test on the rank (line {getattr(test, 'lineno', '?')}): the others wait for this one in their next collective",
                    "let all ranks decide alike: broadcast the decision first",
                )  # fmt: skip


def _leaves(code: Code, node: ast.AST, loop: ast.AST) -> bool:
    if isinstance(node, ast.Return):
        return True
    if isinstance(node, ast.Break):
        inner = next((a for a in code.ancestors(node) if isinstance(a, (*LOOPS, *SCOPES))), None)
        return inner is loop
    return isinstance(node, ast.Call) and code.dotted(node.func) in {"sys.exit", "os._exit", "exit", "quit", "os.abort"} and tail(code.dotted(node.func)) != ""
