"""Edits as data: where, what, which rule, why. Nothing here changes a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst

from scaffold.source.tree import Source, Statement

AFTER, HEAD, SETUP, HOIST, BEFORE, GUARD = range(6)
"""Order of texts inserted at one place: what ends the statement before, imports and helpers, set-up, hoisted collectives, the rest."""


@dataclass(frozen=True)
class Edit:
    """Replace bytes ``start:end`` of ``source`` by ``text`` (an insertion when both are equal)."""

    source: Source
    start: int
    end: int
    text: str
    rule: str
    why: str
    order: int = BEFORE


@dataclass(frozen=True)
class Guard:
    """Run ``statement`` only where ``condition`` holds; neighbours with one condition share one ``if``."""

    source: Source
    statement: Statement
    condition: str
    rule: str
    why: str


@dataclass(frozen=True)
class Under:
    """Put neighbouring statements of one block under ``header`` (a ``with`` line)."""

    source: Source
    statements: tuple[Statement, ...]
    header: str
    rule: str
    why: str


@dataclass(frozen=True)
class Import:
    """Make ``line`` (one import statement) true in ``source``; nothing happens where it already is."""

    source: Source
    line: str
    rule: str
    why: str


@dataclass(frozen=True)
class Helper:
    """A small function definition that the converted file needs once, placed after its imports."""

    source: Source
    name: str
    code: str
    rule: str
    why: str


@dataclass
class Author:
    """Builds edits in the name of one rule."""

    rule: str
    why: str
    edits: list[Edit | Guard | Under | Import | Helper] = field(default_factory=list)

    def replace(self, source: Source, node: cst.CSTNode, text: str) -> None:
        """Replace an expression, its own parentheses included."""
        start, end = source.outer_span(node)
        self.splice(source, start, end, text)

    def splice(self, source: Source, start: int, end: int, text: str, order: int = BEFORE) -> None:
        """Replace a byte range."""
        self.edits.append(Edit(source, start, end, text, self.rule, self.why, order))

    def wrap(self, source: Source, node: cst.CSTNode, prefix: str, suffix: str) -> None:
        """Put text around an expression; edits inside it still apply."""
        start, end = source.outer_span(node)
        self.splice(source, start, start, prefix, HOIST)
        self.splice(source, end, end, suffix, AFTER)

    def call(self, source: Source, node: cst.BaseExpression, name: str) -> None:
        """Put a call of ``name`` around an expression, with its own parentheses if it has some."""
        if node.lpar:
            self.splice(source, (at := source.outer_span(node)[0]), at, name, HOIST)
        else:
            self.wrap(source, node, f"{name}(", ")")

    def before(self, source: Source, statement: cst.CSTNode, code: str, order: int = BEFORE, above_comments: bool = False) -> None:
        """Insert lines before a statement (and the comments right above it), at its indentation; a one-line suite is opened up.

        A small statement behind a semicolon gets a line of its own.
        """
        suite = source.parents.get(statement)
        if isinstance(suite, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) and (at := list(suite.body).index(statement)):  # type: ignore[arg-type]
            self._split(source, suite, at, code, order)
            return
        if isinstance(suite, cst.SimpleStatementLine):
            statement, suite = suite, source.parents.get(suite)
        if isinstance(suite, cst.SimpleStatementSuite):
            start = source.span(suite.body[0])[0]
            indent = source.indent(source.parents[suite]) + source.tree.default_indent
            lines = _indented(source, code, indent).rstrip("\r\n")
            self.splice(source, start, start, source.newline + lines + source.newline + indent, order)
            return
        start = source.lines_of(statement)[0]
        while above_comments and (line := source.line_above(start)) is not None and source.data[line:start].lstrip().startswith(b"#"):
            start = line
        self.splice(source, start, start, _indented(source, code, source.indent(statement)), order)

    def _split(self, source: Source, line: cst.SimpleStatementLine | cst.SimpleStatementSuite, at: int, code: str, order: int) -> None:
        """End the line behind its first ``at`` statements, and insert lines before the rest."""
        indent = source.indent(line if isinstance(line, cst.SimpleStatementLine) else source.parents[line])
        if isinstance(line, cst.SimpleStatementSuite):
            indent += source.tree.default_indent
            start = source.span(line.body[0])[0]
            self.splice(source, start, start, source.newline + indent, order)
        end, start = source.span(line.body[at - 1])[1], source.span(line.body[at])[0]
        self.splice(source, end, start, source.newline + _indented(source, code, indent) + indent, order)

    def after(self, source: Source, statement: cst.CSTNode, code: str, order: int = AFTER) -> None:
        """Insert lines after a statement (after its whole body), at its indentation."""
        end = source.lines_of(statement)[1]
        text = _indented(source, code, source.indent(statement))
        if not source.data[:end].endswith((b"\n", b"\r")):
            text = source.newline + text
        self.splice(source, end, end, text, order)

    def at_start(self, source: Source, block: cst.IndentedBlock, code: str, order: int = BEFORE) -> None:
        """Insert lines at the start of a block, after a docstring."""
        first = block.body[0]
        if is_docstring(first):
            self.after(source, first, code, order)
        else:
            self.before(source, first, code, order, above_comments=True)

    def delete_lines(self, source: Source, statement: cst.CSTNode) -> None:
        """Remove the lines of a statement."""
        self.splice(source, *source.lines_of(statement), "")

    def remove(self, source: Source, small: cst.BaseSmallStatement) -> None:
        """Remove one simple statement; a block left empty goes too where nothing else hangs on it, else ``pass`` stays."""
        line = source.parents[small]
        siblings: list[cst.BaseSmallStatement] = list(line.body)  # type: ignore[attr-defined]
        index = siblings.index(small)
        start, end = source.span(small)
        if index + 1 < len(siblings):
            self.splice(source, start, source.span(siblings[index + 1])[0], "")
        elif index:
            self.splice(source, source.span(siblings[index - 1])[1], end, "")
        elif isinstance(line, cst.SimpleStatementLine) and len(source.suite(line).body) > 1:
            self.delete_lines(source, line)
        else:
            self._remove_emptied(source, line, start, end)

    def _remove_emptied(self, source: Source, line: cst.CSTNode, start: int, end: int) -> None:
        block = line if isinstance(line, cst.SimpleStatementSuite) else source.parents[line]
        parent = source.parents.get(block)
        if isinstance(parent, cst.If) and parent.orelse is None and not isinstance(source.parents[parent], cst.If):
            if len(source.suite(parent).body) > 1:
                self.delete_lines(source, parent)
                return
        self.splice(source, start, end, "pass")

    def add_argument(self, source: Source, call: cst.Call, text: str) -> None:
        """Append an argument to a call."""
        end = source.outer_span(call)[1] - 1 if not call.rpar else source.span(call)[1] - 1
        inside = source.data[source.span(call.func)[1] : end].rstrip()
        separator = "" if not call.args else (" " if inside.endswith(b",") else ", ")
        at = source.span(call.func)[1] + len(inside) if call.args else end
        self.splice(source, at, at, separator + text, AFTER)

    def remove_argument(self, source: Source, call: cst.Call, arg: cst.Arg) -> None:
        """Remove an argument and its comma."""
        index = call.args.index(arg)
        start, end = source.span(arg)
        if index + 1 < len(call.args):
            end = source.span(call.args[index + 1])[0]
        elif index:
            start = source.span(call.args[index - 1])[1]
        self.splice(source, start, end, "")

    def guard(self, source: Source, statement: Statement, condition: str) -> None:
        """Run a statement on some ranks only."""
        self.edits.append(Guard(source, statement, condition, self.rule, self.why))

    def under(self, source: Source, statements: Sequence[cst.CSTNode], header: str) -> None:
        """Put neighbouring statements under a ``with``."""
        self.edits.append(Under(source, tuple(statements), header, self.rule, self.why))  # type: ignore[arg-type]

    def need(self, source: Source, line: str) -> None:
        """Ask for an import."""
        self.edits.append(Import(source, line, self.rule, self.why))

    def helper(self, source: Source, name: str, code: str) -> None:
        """Ask for a helper function."""
        self.edits.append(Helper(source, name, code, self.rule, self.why))


def is_docstring(statement: cst.CSTNode) -> bool:
    """Whether a statement is a bare string literal."""
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and isinstance(statement.body[0], cst.Expr)
        and isinstance(statement.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
    )


def _indented(source: Source, code: str, indent: str) -> str:
    unit = source.tree.default_indent
    lines = []
    for line in code.rstrip("\n").split("\n"):
        stripped = line.lstrip(" ")
        depth = (len(line) - len(stripped)) // 4
        lines.append(indent + unit * depth + stripped if stripped else "")
    return source.newline.join(lines) + source.newline
