"""Comments above the places that a partial conversion leaves to the user."""

from __future__ import annotations

import textwrap
from bisect import bisect_right
from collections.abc import Iterable

import libcst as cst

from scaffold.source.edits import BEFORE, GUARD, Edit
from scaffold.source.rewrite import Rewritten, rewrite
from scaffold.source.tree import Source

_WIDTH = 110


def mark(result: Rewritten, notes: Iterable[tuple[str, int, str]]) -> Rewritten:
    """Add a ``# TODO`` comment for each note (rule, line, text) above the statement at its line."""
    source = result.source
    starts = _statements(source)
    edits = list(result.edits)
    for rule, line, text in notes:
        start, indent = _place(starts, source, line)
        indent += "".join(
            e.text for e in result.edits if e.start == start and e.order == GUARD and not e.text.strip()
        )
        prefix = f"{indent}# TODO(scaffold {rule}): "
        lines = textwrap.wrap(
            prefix + " ".join(text.split()), _WIDTH, subsequent_indent=f"{indent}#     "
        ) or [prefix]
        comment = "".join(x + source.newline for x in lines)
        edits.append(Edit(source, start, start, comment, rule, "left to the user", BEFORE))
    return rewrite(source, edits)


def _statements(source: Source) -> list[tuple[int, cst.CSTNode]]:
    """The first line of each statement that a comment can stand above, in order."""
    found = {
        source.line(node): node
        for node in source.nodes
        if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
    }
    return sorted(found.items(), key=lambda item: item[0])


def _place(starts: list[tuple[int, cst.CSTNode]], source: Source, line: int) -> tuple[int, str]:
    index = bisect_right(starts, line, key=lambda item: item[0]) - 1
    if index < 0:
        return 0, ""
    node = starts[index][1]
    return source.lines_of(node)[0], source.indent(node)
