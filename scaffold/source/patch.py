"""The change of a file as a patch that ``git apply`` takes, each hunk with the rules that made it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from scaffold.source.rewrite import Rewritten

_CONTEXT = 3


@dataclass(frozen=True)
class Hunk:
    """One hunk: ``line`` is its first changed line in the original, ``text`` its header and lines."""

    line: int
    text: str
    rules: tuple[str, ...]


@dataclass
class Change:
    """Lines ``start:end`` of the original become ``new``."""

    start: int
    end: int
    new: list[str]
    rules: list[str]


def unified_diff(result: Rewritten, relative: str) -> str:
    """The whole change of one file (empty when nothing changed)."""
    body = "".join(hunk.text for hunk in hunks(result))
    return f"--- {_name(f'a/{relative}')}\n+++ {_name(f'b/{relative}')}\n{body}" if body else ""


def patch(results: Iterable[tuple[Rewritten, str]]) -> bytes:
    """One patch over several files, each in its own encoding."""
    return b"".join(unified_diff(result, name).encode(result.source.encoding) for result, name in results)


def changes(result: Rewritten) -> list[Change]:
    """The lines of one file that change, in order."""
    bom = result.source.bom
    data = bom + result.source.data
    return [c for region in _regions(result, data, len(bom)) for c in _refined(data, region)]


def hunks(result: Rewritten) -> list[Hunk]:
    """The hunks of one file, in order."""
    lines = _split(result.source.bom + result.source.data)
    groups: list[list[Change]] = []
    for change in changes(result):
        if groups and change.start - groups[-1][-1].end <= 2 * _CONTEXT:
            groups[-1].append(change)
        else:
            groups.append([change])
    found, shift = [], 0
    for group in groups:
        found.append(_hunk(lines, group, shift))
        shift += sum(len(c.new) - (c.end - c.start) for c in group)
    return found


def _regions(result: Rewritten, data: bytes, offset: int) -> list[tuple[int, int, bytes, list[str]]]:
    """Byte ranges of whole lines with what they become; ranges that touch are one."""
    spans: list[list[int]] = []
    texts: list[list[tuple[int, int, bytes]]] = []
    rules: list[list[str]] = []
    for edit in result.edits:
        start, end, text = edit.start + offset, edit.end + offset, edit.text.encode()
        first, last = _covered(data, start, end, text)
        if spans and first <= spans[-1][1]:
            spans[-1][1] = max(last, spans[-1][1])
        else:
            spans.append([first, last])
            texts.append([])
            rules.append([])
        texts[-1].append((start, end, text))
        if edit.rule not in rules[-1]:
            rules[-1].append(edit.rule)
    found = []
    for (first, last), pieces, names in zip(spans, texts, rules, strict=True):
        new, at = [], first
        for start, end, text in pieces:
            new += [data[at:start], text]
            at = end
        found.append((first, last, b"".join([*new, data[at:last]]), names))
    return found


def _line_start(data: bytes, offset: int) -> int:
    return data.rfind(b"\n", 0, offset) + 1


def _covered(data: bytes, start: int, end: int, text: bytes) -> tuple[int, int]:
    """The lines that a replacement may change; whole lines that are inserted change no other."""
    first = _line_start(data, start)
    if first == start and _line_start(data, end) == end and (not text or text.endswith(b"\n")):
        return start, end
    return first, _line_end(data, end)


def _line_end(data: bytes, offset: int) -> int:
    at = data.find(b"\n", offset)
    return len(data) if at < 0 else at + 1


def _refined(data: bytes, region: tuple[int, int, bytes, list[str]]) -> list[Change]:
    """The lines of a region that really differ."""
    first, last, text, rules = region
    old, new = _split(data[first:last]), _split(text)
    base = data.count(b"\n", 0, first)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [
        Change(base + i, base + j, new[k:m], rules)
        for tag, i, j, k, m in matcher.get_opcodes()
        if tag != "equal"
    ]


def _hunk(lines: list[str], group: list[Change], shift: int) -> Hunk:
    first = max(group[0].start - _CONTEXT, 0)
    last = min(group[-1].end + _CONTEXT, len(lines))
    body, at, added = [], first, 0
    for change in group:
        body += [" " + x for x in lines[at : change.start]]
        body += ["-" + x for x in lines[change.start : change.end]]
        body += ["+" + x for x in change.new]
        at = change.end
        added += len(change.new) - (change.end - change.start)
    body += [" " + x for x in lines[at:last]]
    old, new = last - first, last - first + added
    header = f"@@ -{_range(first, old)} +{_range(first + shift, new)} @@\n"
    text = header + "".join(x if x.endswith("\n") else x + "\n\\ No newline at end of file\n" for x in body)
    return Hunk(group[0].start + 1, text, tuple(sorted({r for c in group for r in c.rules})))


def _range(start: int, count: int) -> str:
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _split(data: bytes) -> list[str]:
    parts = data.decode("utf-8").split("\n")
    return [p + "\n" for p in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _name(path: str) -> str:
    """A path as git writes it in a patch: quoted where it must be, ended by a tab where it holds a space."""
    if any(c in '"\\' or ord(c) < 32 or ord(c) > 126 for c in path):
        quoted = "".join(
            f"\\{chr(b)}" if chr(b) in '"\\' else chr(b) if 32 <= b < 127 else f"\\{b:03o}"
            for b in path.encode()
        )
        return f'"{quoted}"'
    return path + "\t" if " " in path else path
