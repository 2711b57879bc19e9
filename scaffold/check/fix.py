"""Safe fixes: small edits of one statement that cannot change what a single process does."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from scaffold.check.code import Code, own_of, tail
from scaffold.check.finding import Finding
from scaffold.check.flow import body_of, text_of


class Edit(NamedTuple):
    """Replace what lies between two places (line from 1, column in bytes) by ``text``."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


Fix = Callable[[Code, Finding], list[Edit]]


def fixed(findings: Iterable[Finding]) -> dict[Path, str]:
    """The new text of each file with a finding that has a safe fix. Line ends stay as they are."""
    by_path: dict[str, list[Finding]] = {}
    for finding in findings:
        by_path.setdefault(finding.path, []).append(finding)
    changed: dict[Path, str] = {}
    for name, found in by_path.items():
        path = Path(name)
        text = path.read_bytes().decode("utf-8", "strict") if any(f.rule in FIXES and f.severity != "note" for f in found) else ""
        if not text:
            continue
        code = Code(path, name, text)
        edits = [e for f in found if f.rule in FIXES and f.severity != "note" for e in FIXES[f.rule](code, f)]
        new = _applied(text, edits)
        if new != text and _parses(new):
            changed[path] = new
    return changed


def patch(texts: dict[Path, str]) -> str:
    """The changes as a unified diff."""
    parts: list[str] = []
    for path, new in texts.items():
        old = path.read_bytes().decode("utf-8")
        name = path.as_posix().lstrip("/")
        parts += difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{name}", f"b/{name}")
    return "".join(parts)


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _applied(text: str, edits: list[Edit]) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.encode().splitlines(keepends=True)
    last = (len(lines) + 2, 0)
    for edit in sorted(set(edits), reverse=True):
        if edit.end > last:
            continue
        (first, column), (end, end_column) = edit.start, edit.end
        new = lines[first - 1][:column] + edit.text.replace("\n", newline).encode() + lines[end - 1][end_column:]
        lines[first - 1 : end] = [new]
        last = edit.start
    return b"".join(lines).decode()


def _calls_at(code: Code, finding: Finding, *names: str) -> list[ast.Call]:
    return [c for c in code.calls if c.lineno == finding.line and code.called(c) in names]


def _argument(call: ast.Call, text: str) -> Edit:
    """One more argument at the end of a call."""
    given = [*call.args, *(k.value for k in call.keywords)]
    if not given:
        place = call.end_lineno or 0, (call.end_col_offset or 1) - 1
        return Edit(place, place, text)
    last = max(given, key=lambda n: (n.end_lineno or 0, n.end_col_offset or 0))
    place = last.end_lineno or 0, last.end_col_offset or 0
    return Edit(place, place, f", {text}")


def _exist_ok(code: Code, finding: Finding) -> list[Edit]:
    return [_argument(c, "exist_ok=True") for c in _calls_at(code, finding, "makedirs", "mkdir") if code.dotted(c.func) != "os.mkdir"]


def _map_location(code: Code, finding: Finding) -> list[Edit]:
    return [_argument(c, 'map_location="cpu"') for c in _calls_at(code, finding, "load") if code.dotted(c.func) == "torch.load" and "map_location" in finding.do]


def _disable(code: Code, finding: Finding) -> list[Edit]:
    rank = _rank(code)
    return [_argument(c, f"disable={rank} != 0") for c in _calls_at(code, finding, "tqdm", "trange")] if rank else []


def _no_shuffle(code: Code, finding: Finding) -> list[Edit]:
    edits = []
    for call in _calls_at(code, finding, "DataLoader"):
        keyword = next((k for k in call.keywords if k.arg == "shuffle"), None)
        parts: list[ast.expr | ast.keyword] = sorted([*call.args, *call.keywords], key=lambda n: (n.lineno, n.col_offset))
        if "shuffle=True are given together" in finding.why and keyword is not None and parts.index(keyword):
            before = parts[parts.index(keyword) - 1]
            edits.append(Edit((before.end_lineno or 0, before.end_col_offset or 0), (keyword.end_lineno or 0, keyword.end_col_offset or 0), ""))
    return edits


def _guard(code: Code, finding: Finding) -> list[Edit]:
    """Puts a statement that stands on lines of its own under a test for rank 0."""
    statement = next((n for n in code.nodes if isinstance(n, ast.Expr) and n.lineno == finding.line), None)
    rank = _rank(code)
    if statement is None or not rank or ("at once" not in finding.why and "prints" not in finding.why):
        return []
    lines = code.text.encode().splitlines()
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    indent = lines[first - 1][: statement.col_offset].decode()
    if indent.strip() or lines[last - 1][statement.end_col_offset or 0 :].strip() or any(isinstance(n, ast.Constant) and isinstance(n.value, str) and n.end_lineno != n.lineno for n in ast.walk(statement)):
        return []
    step = "\t" if indent.startswith("\t") else "    "
    edits = [Edit((first, 0), (first, 0), f"{indent}if {rank} == 0:\n{step}")]
    return edits + [Edit((n, 0), (n, 0), step) for n in range(first + 1, last + 1) if lines[n - 1].strip()]


def _rank(code: Code) -> str:
    """How this file asks for the rank."""
    for name, module in code.imports.items():
        if module == "torch.distributed":
            return f"{name}.get_rank()"
    return "torch.distributed.get_rank()" if code.imports.get("torch") == "torch" and "torch.distributed" in code.text else ""


def _set_epoch(code: Code, finding: Finding) -> list[Edit]:
    """Tells the sampler of this statement the epoch, where the epoch loop stands in the same function and counts."""
    statement = next((n for n in code.nodes if isinstance(n, ast.Assign) and n.lineno == finding.line), None)
    name = text_of(statement.targets[0]) if statement is not None else ""
    if not name or statement is None or not isinstance(statement.value, ast.Call):
        return []
    for loop in own_of(body_of(code, statement)):
        if isinstance(loop, ast.For) and loop.lineno > statement.lineno and not code.loops_of(loop) and isinstance(loop.target, ast.Name) and loop.target.id != "_" and tail(code.dotted(getattr(loop.iter, "func", loop))) in {"range", "trange"}:
            first = loop.body[0]
            if first.lineno == loop.lineno or not any(isinstance(n, (ast.For, ast.Call)) for n in own_of(loop.body)):
                continue
            indent = code.text.encode().splitlines()[first.lineno - 1][: first.col_offset].decode()
            return [Edit((first.lineno, 0), (first.lineno, 0), f"{indent}{name}.set_epoch({loop.target.id})\n")]
    return []


FIXES: dict[str, Fix] = {"SC201": _no_shuffle, "SC203": _set_epoch, "SC601": _guard, "SC602": _disable, "SC605": _exist_ok, "SC611": _guard, "SC612": _map_location}
"""The fix of each rule that has one."""
