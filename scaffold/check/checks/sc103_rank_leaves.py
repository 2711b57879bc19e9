"""No rank leaves alone.

A ``return``, ``break``, ``sys.exit`` or ``os._exit`` in a training loop under a test on the rank leaves the others waiting in
their next collective.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check.code import own
from scaffold.check.finding import Finding
from scaffold.check.loops import leaves
from scaffold.check.reading import Reading

ID = "SC103"
NAME = "rank-leaves"


def check(reading: Reading) -> Iterator[Finding]:
    """Ways out of a training loop under a test on the rank."""
    seen: set[ast.AST] = set()
    for loop, code in reading.loops.training.items():
        for node in own(loop):
            if node in seen or not leaves(code, node, loop):
                continue
            seen.add(node)
            test = reading.places.differs(code, node)
            if test is not None and test in set(ast.walk(loop)):
                yield reading.at(
                    ID, "error", code, node, f"leaves the training under a test on the rank (line {getattr(test, 'lineno', '?')}): the others wait for this one in their next collective",
                    "let all ranks decide alike: broadcast the decision first",
                )  # fmt: skip
