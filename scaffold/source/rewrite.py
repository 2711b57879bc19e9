"""Apply all edits of a file in one pass; bytes that no edit names stay as they are."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace

import libcst as cst

from scaffold.source.edits import GUARD, HEAD, SETUP, Edit, Guard, Helper, Import, Under, is_docstring
from scaffold.source.tree import Source, Statement, dotted

Change = Edit | Guard | Under | Import | Helper


class EditConflict(RuntimeError):
    """Two edits claim the same bytes: a bug in the rules, never a guess."""


@dataclass(frozen=True)
class Rewritten:
    """New text of a file and the edits that made it, in file order."""

    source: Source
    text: str
    edits: tuple[Edit, ...]

    def encoded(self) -> bytes:
        """The bytes to write: original encoding and byte-order mark kept."""
        return self.source.bom + self.text.encode(self.source.encoding)


def rewrite(source: Source, changes: Iterable[Change]) -> Rewritten:
    """Return ``source`` with every change applied.

    Raises:
        EditConflict: edits overlap, or the result no longer parses.
    """
    mine = list(dict.fromkeys(c for c in changes if c.source is source))
    edits = [c for c in mine if isinstance(c, Edit)]
    imports = [c for c in mine if isinstance(c, Import)]
    helpers = [c for c in mine if isinstance(c, Helper)]
    head = _head(source, edits, imports, helpers)
    edits += _imports(source, head, imports)
    edits += _helpers(source, head, helpers)
    for item in mine:
        if isinstance(item, Under):
            run = list(item.statements)
            start, end = source.lines_of(run[0])[0], source.lines_of(run[-1])[1]
            edits += _indent_block(source, run, start, end, item.header, item.rule, item.why)
    edits += _guards(source, [c for c in mine if isinstance(c, Guard)], edits)
    ordered = tuple(sorted(_unique(edits), key=lambda e: (e.start, e.start != e.end, e.order, e.end)))
    data = _splice(source, ordered)
    text = data.decode("utf-8")
    if text != source.text:
        _check_syntax(source, text)
    return Rewritten(source, text, ordered)


def _check_syntax(source: Source, text: str) -> None:
    """Compile the result; where this Python cannot compile the original either (newer syntax), LibCST must at least parse it."""
    error = _compile_error(text)
    if error is None:
        return
    if _compile_error(source.text) is None:
        raise EditConflict(f"{source.name}:{error.lineno}: the edits do not fit together here ({error.msg})")
    try:
        cst.parse_module(text)
    except cst.ParserSyntaxError as unparsed:
        raise EditConflict(f"{source.name}:{unparsed.raw_line}: the edits do not fit together here") from None


def _compile_error(text: str) -> SyntaxError | None:
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(text, "<converted>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError):
        return SyntaxError("cannot be compiled")
    return None


def _unique(edits: list[Edit]) -> list[Edit]:
    seen: dict[tuple[int, int, str], Edit] = {}
    for edit in edits:
        seen.setdefault((edit.start, edit.end, edit.text), edit)
    return list(seen.values())


def _splice(source: Source, edits: tuple[Edit, ...]) -> bytes:
    parts: list[bytes] = []
    at = 0
    for edit in edits:
        if edit.start < at:
            raise EditConflict(f"{source.name}: edits of {edit.rule} overlap another at byte {edit.start}: {edit.text!r}")
        parts += [source.data[at : edit.start], edit.text.encode("utf-8")]
        at = edit.end
    return b"".join([*parts, source.data[at:]])


def _head(source: Source, edits: list[Edit], imports: list[Import], helpers: list[Helper]) -> list[cst.CSTNode]:
    """The top of the module: the statements before the first that runs what is imported or defined."""
    names = {line.line.split()[-1].partition(".")[0] for line in imports} | {h.name for h in helpers}
    used = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b") if names else None
    places = sorted(e.start for e in edits if used and used.search(e.text))
    for index, statement in enumerate(source.tree.body):
        if places and not isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            start, end = source.lines_of(statement)
            if any(start <= p < end for p in places):
                return list(source.tree.body[:index])
    return list(source.tree.body)


def _imports(source: Source, head: list[cst.CSTNode], wanted: list[Import]) -> list[Edit]:
    present: set[str] = set()
    last_torch: cst.CSTNode | None = None
    anchor: cst.CSTNode | None = None
    first_import: cst.CSTNode | None = None
    for statement in head:
        if not isinstance(statement, cst.SimpleStatementLine):
            if anchor is not None:
                break
            continue
        small = statement.body[0]
        if isinstance(small, (cst.Import, cst.ImportFrom)):
            for part in statement.body:
                present.update(_bindings(part))
            if isinstance(small, cst.ImportFrom) and small.module and dotted(small.module) == "__future__":
                anchor = statement
                continue
            first_import = first_import or statement
            anchor = statement
            if source.code(small).replace("from ", "import ", 1).startswith("import torch"):
                last_torch = statement
    edits: list[Edit] = []
    for item in _joined([x for x in sorted(dict.fromkeys(wanted), key=_import_order) if x.line not in present]):
        third_party = "torch" in item.line
        if third_party and last_torch is not None:
            at = source.lines_of(last_torch)[1]
        elif first_import is not None:
            at = source.lines_of(first_import)[0]
        elif anchor is not None:
            at = source.lines_of(anchor)[1]
        else:
            at = _top(source)
        text = item.line + source.newline
        if at == len(source.data) and not source.data.endswith(b"\n"):
            text = source.newline + text
        edits.append(Edit(source, at, at, text, item.rule, item.why, HEAD))
    return edits


def _joined(imports: list[Import]) -> Iterable[Import]:
    """Imports, those of several names from one module in one line."""
    last: Import | None = None
    for item in imports:
        module, _, name = item.line.partition(" import ")
        if last is not None and module.startswith("from ") and last.line.startswith(f"{module} import ") and " as " not in item.line + last.line:
            if name not in last.line.partition(" import ")[2].split(", "):
                last = replace(last, line=f"{last.line}, {name}")
        else:
            if last is not None:
                yield last
            last = item
    if last is not None:
        yield last


def _is_import(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], (cst.Import, cst.ImportFrom))


def _import_order(item: Import) -> tuple[bool, str]:
    return item.line.startswith("from"), item.line


def _bindings(node: cst.CSTNode) -> Iterable[str]:
    if isinstance(node, cst.Import):
        for alias in node.names:
            name = dotted(alias.name)
            yield f"import {name} as {alias.evaluated_alias}" if alias.asname else f"import {name}"
    elif isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar) and node.module:
        module = dotted(node.module)
        for alias in node.names:
            name = dotted(alias.name)
            yield f"from {module} import {name}" + (f" as {alias.evaluated_alias}" if alias.asname else "")


def _top(source: Source) -> int:
    body = source.tree.body
    if body and is_docstring(body[0]):
        return source.lines_of(body[0])[1]
    return source.lines_of(body[0])[0] if body else len(source.data)


def _helpers(source: Source, head: list[cst.CSTNode], helpers: list[Helper]) -> list[Edit]:
    unique = {h.name: h for h in helpers}
    if not unique:
        return []
    end = 0
    for index, statement in enumerate(head):
        if _is_import(statement) or is_docstring(statement):
            end = index + 1
        elif isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            break
    at = source.lines_of(head[end - 1])[1] if end else _top(source)
    nl = source.newline
    unit = source.tree.default_indent
    edits = []
    for helper in unique.values():
        code = nl.join(
            unit * ((len(x) - len(x.lstrip(" "))) // 4) + x.lstrip(" ") if x.strip() else ""
            for x in helper.code.strip().split("\n")
        )
        edits.append(Edit(source, at, at, nl + nl + code + nl, helper.rule, helper.why, HEAD))
    following = source.data[at:]
    if following.strip() and not following.startswith((b"\n\n", b"\r\n\r\n", b"\r\r")):
        pad = nl if following.startswith((b"\n", b"\r")) else nl + nl
        edits.append(Edit(source, at, at, pad, edits[-1].rule, edits[-1].why, HEAD))
    return edits


def _guards(source: Source, guards: list[Guard], edits: list[Edit]) -> list[Edit]:
    """One ``if`` for each run of neighbouring guarded statements; a whole ``if`` body joins its test."""
    wanted = {g.statement: g for g in guards}
    wanted = {s: g for s, g in wanted.items() if not any(a in wanted for a in source.ancestors(s))}
    busy = {e.start for e in edits} | {e.end for e in edits}
    out: list[Edit] = []
    for suite in dict.fromkeys(source.suite(s) for s in wanted):
        body = list(suite.body)
        if isinstance(suite, cst.SimpleStatementSuite):
            out += _one_line(source, suite, wanted, busy)
            continue
        for run in _runs(source, body, wanted, busy):
            guard = wanted[run[0]]
            parent = source.parents.get(suite)
            start, end = source.lines_of(run[0])[0], source.lines_of(run[-1])[1]
            whole = len(run) == len(body) and isinstance(parent, cst.If) and parent.orelse is None
            touched = any(e.start == e.end and e.start in (start, end) for e in edits)
            if whole and isinstance(parent, cst.If):
                first, last = source.span(parent.test)
                touched = touched or any(first <= e.start and e.end <= last for e in edits)
            if whole and not touched and isinstance(parent, cst.If) and not _is_elif(source, parent):
                out += _join_test(source, parent, guard)
            else:
                out += _indent_block(source, run, start, end, f"if {guard.condition}:", guard.rule, guard.why)
    return out


def _one_line(source: Source, suite: cst.SimpleStatementSuite, wanted: dict[Statement, Guard], busy: set[int]) -> list[Edit]:
    """Guard what stands behind the colon of a one-line block."""
    guard = next(wanted[s] for s in suite.body if s in wanted)
    parent = source.parents[suite]
    start = source.span(suite.body[0])[0]
    if all(s in wanted for s in suite.body):
        if isinstance(parent, cst.If) and parent.orelse is None and not _is_elif(source, parent) and start not in busy:
            return _join_test(source, parent, guard)
        opened = "" if start in busy else source.newline + source.indent(parent) + source.tree.default_indent
        return [Edit(source, start, start, f"{opened}if {guard.condition}: ", guard.rule, guard.why, GUARD)]
    spans = [source.span(s) for s in suite.body if s in wanted]
    return [
        edit
        for a, b in spans
        for edit in (
            Edit(source, a, a, "(", guard.rule, guard.why, GUARD),
            Edit(source, b, b, f") if {guard.condition} else None", guard.rule, guard.why, GUARD),
        )
    ]


def _is_elif(source: Source, node: cst.If) -> bool:
    return isinstance(source.parents.get(node), cst.If)


def _runs(
    source: Source, body: list[cst.CSTNode], wanted: dict[Statement, Guard], busy: set[int]
) -> Iterable[list[Statement]]:
    run: list[Statement] = []
    for statement in body:
        guard = wanted.get(statement)  # type: ignore[call-overload]
        if guard is None:
            if run:
                yield run
            run = []
            continue
        start = source.lines_of(statement)[0]
        between = source.data[source.lines_of(run[-1])[1] : start] if run else b""
        if run and (wanted[run[-1]].condition != guard.condition or start in busy or between.strip()):
            yield run
            run = []
        run.append(guard.statement)
    if run:
        yield run


def _join_test(source: Source, node: cst.If, guard: Guard) -> list[Edit]:
    start, end = source.outer_span(node.test)
    loose = isinstance(node.test, (cst.BooleanOperation, cst.IfExp, cst.Lambda, cst.NamedExpr)) and not node.test.lpar
    if isinstance(node.test, cst.BooleanOperation) and isinstance(node.test.operator, cst.And):
        loose = False
    opening, closing = (" and (", ")") if loose else (" and ", "")
    edits = [Edit(source, start, start, guard.condition + opening, guard.rule, guard.why, SETUP)]
    if closing:
        edits.append(Edit(source, end, end, closing, guard.rule, guard.why, 9))
    return edits


def _indent_block(
    source: Source, run: list[Statement], start: int, end: int, header: str, rule: str, why: str
) -> list[Edit]:
    indent, unit, nl = source.indent(run[0]), source.tree.default_indent, source.newline
    inside = [span for statement in run for span in source.multiline_strings(statement)]
    edits = [Edit(source, start, start, f"{indent}{header}{nl}{unit}", rule, why, GUARD)]
    at = source.line_end(start)
    while at < end:
        line = source.data[at : source.line_end(at)]
        if line.strip() and not any(a < at <= b for a, b in inside):
            edits.append(Edit(source, at, at, unit, rule, why, GUARD))
        at = source.line_end(at)
    return edits
