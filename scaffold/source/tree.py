"""A parsed file: the LibCST tree with parents, byte spans and statement geometry.

LibCST's own ``children`` rebuilds nodes as it goes; :func:`children` reads the dataclass fields and is about ten
times faster, which is what keeps ``scaffold convert`` well under a second.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider

_LAYOUT = (
    "whitespace", "lpar", "rpar", "leading", "trailing", "header", "footer", "comma", "semicolon",
    "lbracket", "rbracket", "lbrace", "rbrace", "dot", "equal", "lines_after", "colon", "newline", "indent",
)  # fmt: skip
_SEQUENCES = (tuple, list)
_fields: dict[type, tuple[str, ...]] = {}
_node_types: dict[type, bool] = {}

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement | cst.BaseSmallStatement
Suite = cst.IndentedBlock | cst.SimpleStatementSuite | cst.Module


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the child nodes that carry meaning (no whitespace, parentheses or commas), in source order."""
    kind = type(node)
    names = _fields.get(kind)
    if names is None:
        names = tuple(n for n in kind.__dataclass_fields__ if not n.startswith(_LAYOUT))
        _fields[kind] = names
    for name in names:
        value = getattr(node, name)
        if _is_node(value):
            yield value
        elif type(value) in _SEQUENCES:
            for item in value:
                if _is_node(item):
                    yield item


def _is_node(value: object) -> bool:
    """``isinstance(value, cst.CSTNode)``, remembered by type: the check of an abstract class is slow."""
    kind = type(value)
    known = _node_types.get(kind)
    if known is None:
        known = _node_types[kind] = issubclass(kind, cst.CSTNode)
    return known


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield ``node`` and everything under it, depth first, in source order."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        below = list(children(current))
        below.reverse()
        stack += below


def dotted(node: cst.CSTNode) -> str | None:
    """Return ``a.b.c`` for a chain of names and attributes, else None."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        head = dotted(node.value)
        return None if head is None else f"{head}.{node.attr.value}"
    return None


class Source:
    """One file of the project.

    Spans are byte offsets into :attr:`data`, the UTF-8 form of the text without its byte-order mark.
    """

    def __init__(self, path: Path, name: str, text: str, encoding: str = "utf-8", bom: bytes = b"") -> None:
        self.path = path
        self.name = name
        self.text = text
        self.encoding = encoding
        self.bom = bom
        self.data = text.encode("utf-8")
        self.tree = cst.parse_module(text)
        self.newline = max(("\n", "\r\n", "\r"), key=_line_ends(text).count)

    def __repr__(self) -> str:
        return f"Source({self.name})"

    @cached_property
    def _spans(self) -> dict[cst.CSTNode, tuple[int, int]]:
        provider = ByteSpanPositionProvider()
        provider._gen_impl(self.tree)  # what MetadataWrapper does, without its second walk over the tree
        found = provider._computed
        return {node: (span.start, span.start + span.length) for node, span in found.items()}  # type: ignore[union-attr]

    @cached_property
    def parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        """The parent of every node that :func:`walk` reaches."""
        found: dict[cst.CSTNode, cst.CSTNode] = {}
        stack: list[cst.CSTNode] = [self.tree]
        while stack:
            node = stack.pop()
            for child in children(node):
                found[child] = node
                stack.append(child)
        return found

    @cached_property
    def nodes(self) -> tuple[cst.CSTNode, ...]:
        """Every node that :func:`walk` reaches, in source order."""
        return tuple(walk(self.tree))

    @cached_property
    def _line_starts(self) -> list[int]:
        starts, at = [0], 0
        for line in self.data.splitlines(keepends=True):
            at += len(line)
            starts.append(at)
        return starts

    @cached_property
    def names(self) -> frozenset[str]:
        """Every identifier that occurs anywhere in the file."""
        return frozenset(node.value for node in self.nodes if isinstance(node, cst.Name))

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Byte span of ``node`` without surrounding whitespace or parentheses."""
        return self._spans[node]

    def outer_span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Byte span of an expression with the parentheses that belong to it."""
        if not getattr(node, "lpar", ()):
            return self._spans[node]
        return self._spans[node.lpar[0]][0], self._spans[node.rpar[-1]][1]  # type: ignore[attr-defined]

    def code(self, node: cst.CSTNode) -> str:
        """Source text of ``node``."""
        start, end = self.span(node)
        return self.data[start:end].decode("utf-8")

    def line(self, node: cst.CSTNode) -> int:
        """One-based line on which ``node`` begins."""
        return bisect_right(self._line_starts, self.span(node)[0])

    def line_at(self, offset: int) -> int:
        """One-based line that holds ``offset``."""
        return bisect_right(self._line_starts, offset)

    def line_start(self, offset: int) -> int:
        """Offset of the beginning of the line that holds ``offset``."""
        return self._line_starts[bisect_right(self._line_starts, offset) - 1]

    def line_above(self, offset: int) -> int | None:
        """Offset of the line before the one that begins at ``offset``; None for the file's first two lines, which may name its encoding."""
        number = self.line_at(offset)
        return self._line_starts[number - 2] if number > 3 else None

    def line_end(self, offset: int) -> int:
        """Offset just past the newline that ends the line holding ``offset``."""
        at = bisect_right(self._line_starts, offset)
        return self._line_starts[at] if at < len(self._line_starts) else len(self.data)

    def statement(self, node: cst.CSTNode) -> Statement:
        """The innermost whole statement that contains ``node`` (for ``if x: y`` the small statement ``y``)."""
        while not isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            parent = self.parents[node]
            if isinstance(parent, cst.SimpleStatementSuite) and isinstance(node, cst.BaseSmallStatement):
                return node
            node = parent
        return node

    def small(self, statement: cst.CSTNode, node: cst.CSTNode) -> cst.CSTNode:
        """The part of a line of several statements (``a(); b()``) that contains ``node``; else ``statement``."""
        if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) > 1:
            return next(n for n in [node, *self.ancestors(node)] if n in statement.body)
        return statement

    def suite(self, statement: cst.CSTNode) -> Suite:
        """The block whose direct child ``statement`` is."""
        node = self.parents[statement]
        while not isinstance(node, (cst.IndentedBlock, cst.SimpleStatementSuite, cst.Module)):
            node = self.parents[node]
        return node

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | cst.Lambda | cst.Module:
        """The function that ``node`` belongs to, else the module."""
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, (cst.FunctionDef, cst.Lambda)):
                return node
        return self.tree

    def self_name(self, node: cst.CSTNode) -> str:
        """What the method around ``node`` calls its object."""
        function = self.function(node)
        if isinstance(function, cst.FunctionDef) and function.params.params:
            return function.params.params[0].name.value
        return "self"

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the parents of ``node``, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def indent(self, statement: cst.CSTNode) -> str:
        """The whitespace before ``statement`` on its line."""
        start = self.span(_first_token_holder(statement))[0]
        line = self.data[self.line_start(start) : start].decode("utf-8")
        return line[: len(line) - len(line.lstrip(" \t\x0c"))].replace("\x0c", "")

    def block_indent(self, block: cst.IndentedBlock) -> str:
        """The whitespace before the statements of ``block``."""
        return self.indent(block.body[0])

    def lines_of(self, statement: cst.CSTNode) -> tuple[int, int]:
        """Offsets of the first byte and just past the last newline of the lines that ``statement`` fills."""
        start = self.line_start(self.span(_first_token_holder(statement))[0])
        return start, self.line_end(max(start, self.span(last_statement(statement))[1] - 1))

    def multiline_strings(self, node: cst.CSTNode) -> list[tuple[int, int]]:
        """Spans of the string literals under ``node`` that reach over a line end."""
        kinds = (cst.SimpleString, cst.FormattedString)
        spans = [self.span(n) for n in walk(node) if isinstance(n, kinds)]
        return [(a, b) for a, b in spans if b"\n" in self.data[a:b] or b"\r" in self.data[a:b]]


def _line_ends(text: str) -> list[str]:
    return re.findall("\r\n|\r|\n", text)


def _first_token_holder(statement: cst.CSTNode) -> cst.CSTNode:
    decorators = getattr(statement, "decorators", ())
    return decorators[0] if decorators else statement


def last_statement(statement: cst.CSTNode) -> cst.CSTNode:
    """The last simple statement under ``statement`` (itself if it is simple)."""
    node = statement
    while True:
        tail: cst.CSTNode | None = None
        if isinstance(node, cst.If):
            tail = node.orelse or node.body
        elif isinstance(node, (cst.For, cst.While)):
            tail = node.orelse or node.body
        elif isinstance(node, (cst.Try, cst.TryStar)):
            tail = node.finalbody or node.orelse or (node.handlers[-1] if node.handlers else node.body)
        elif isinstance(node, cst.Match):
            tail = node.cases[-1]
        elif isinstance(node, (cst.IndentedBlock, cst.SimpleStatementSuite)):
            tail = node.body[-1] if node.body else None
        else:
            tail = getattr(node, "body", None) if not isinstance(node, cst.SimpleStatementLine) else None
        if not isinstance(tail, cst.CSTNode):
            return node
        node = tail
