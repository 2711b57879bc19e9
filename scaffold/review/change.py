"""One file's change: each hunk's lines, with the rule that explains them or none."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field

from scaffold.review.rules_of import is_setting, rules_of

_NEAR = 3
_WRAPPER = re.compile(r"\s*([\w.]+)\s*=\s*.*\b(?:DDP|DistributedDataParallel)\(")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?")
_ALIKE = 0.6


@dataclass
class Line:
    """``sign`` is ``+``, ``-`` or a blank; ``number`` counts from 1, in the new text unless the line was taken out."""

    sign: str
    number: int
    text: str
    rules: tuple[str, ...] = ()
    explained: bool = True


@dataclass
class Hunk:
    """Changed lines that stand together, with some around them. ``as_converted``: a conversion makes the same change."""

    path: str
    line: int
    lines: list[Line]
    rules: tuple[str, ...] = ()
    as_converted: bool = False

    @property
    def open_lines(self) -> list[Line]:
        """The lines that no rule explains."""
        return [x for x in self.lines if not x.explained]

    @property
    def setting(self) -> bool:
        """Whether one of them changes what training depends on."""
        return any(is_setting(x.text) for x in self.open_lines)


@dataclass(frozen=True)
class Expected:
    """What a conversion changes in a file: lines ``start:end`` (from 0) of the old text become ``new``."""

    start: int
    end: int
    new: list[str]
    rules: tuple[str, ...]


@dataclass
class FileChange:
    """All hunks of a file, and what a conversion would have changed besides."""

    path: str
    hunks: list[Hunk] = field(default_factory=list)
    missing: list[Expected] = field(default_factory=list)


def compare(path: str, before: str, after: str, expected: list[Expected]) -> FileChange:
    """The change of one file against what a conversion changes."""
    old, new = before.splitlines(), after.splitlines()
    wrappers = {match[1] for x in new if (match := _WRAPPER.match(x))}
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    found = FileChange(path)
    for group in matcher.get_grouped_opcodes(_NEAR):
        lines: list[Line] = []
        exact = True
        for tag, i, j, k, m in group:
            if tag == "equal":
                lines += [Line(" ", k + n + 1, text) for n, text in enumerate(new[k:m])]
                continue
            mine = [e for e in expected if e.start <= j and i <= e.end]
            block = _block(old[i:j], new[k:m], i, k, mine, wrappers)
            exact &= any(e.start == i and e.end == j and [x.rstrip() for x in e.new] == [x.rstrip() for x in new[k:m]] for e in mine)
            lines += block
        rules = tuple(dict.fromkeys(r for line in lines if line.sign != " " for r in line.rules))
        found.hunks.append(Hunk(path, group[0][3] + 1, lines, rules, exact))
    written = {_aspect(r) for hunk in found.hunks for line in hunk.lines if line.sign == "+" for r in rules_of(line.text)}
    texts = {x.strip() for x in new}
    found.missing = [e for e in expected if not {_aspect(r) for r in e.rules} <= written and any(x.strip() and x.strip() not in texts for x in e.new)]
    return found


def _aspect(rule: str) -> str:
    """Rules that one line written by hand often serves together: a guard for rank 0, a reduction."""
    return rule[:3] if rule.startswith(("SC5", "SC6")) else rule


def _block(old: list[str], new: list[str], at: int, to: int, expected: list[Expected], wrappers: set[str]) -> list[Line]:
    """The lines of one replacement, the old ones first."""
    wanted = {x.strip(): e.rules for e in expected for x in e.new}
    removed = {n for e in expected for n in range(e.start, e.end)}
    fallback = tuple(dict.fromkeys(r for e in expected for r in e.rules))
    moved = {x.strip() for x in old}
    added = [_added(text, to + n + 1, wanted, moved, wrappers) for n, text in enumerate(new)]
    likely = [x.text.strip() for x in added if x.explained]
    taken = [_removed(text, at + n + 1, at + n in removed, likely, {x.strip() for x in new}, fallback) for n, text in enumerate(old)]
    return taken + added


def _added(text: str, number: int, wanted: dict[str, tuple[str, ...]], moved: set[str], wrappers: set[str]) -> Line:
    bare = text.strip()
    if bare in wanted:
        return Line("+", number, text, wanted[bare])
    if any(_renamed(old, bare, wrappers) for old in moved):
        return Line("+", number, text, ("SC301",))
    rules = rules_of(text)
    plain = not bare or bare in moved or bare.startswith(("#", "import ", "from ")) or bare in {")", "]", "}", "else:", "try:", "return", "pass", "main()"}
    return Line("+", number, text, rules[:1], plain or (bool(rules) and not _other_numbers(bare, moved)))


def _renamed(old: str, new: str, wrappers: set[str]) -> bool:
    """Whether two lines differ by a wrapper's name alone."""
    one, two = _TOKEN.findall(old), _TOKEN.findall(new)
    return len(one) == len(two) and one != two and all(a == b or b in wrappers for a, b in zip(one, two, strict=True))


def _other_numbers(line: str, old: set[str]) -> bool:
    """Whether a line that takes the place of one much like it has other numbers in it: a setting was changed on the way."""
    near = difflib.get_close_matches(line, old, 1, 0.5)
    return bool(near) and bool((set(_NUMBER.findall(line)) ^ set(_NUMBER.findall(near[0]))) - {"0", "1"})


def _removed(text: str, number: int, expected: bool, likely: list[str], kept: set[str], rules: tuple[str, ...]) -> Line:
    bare = text.strip()
    known = rules_of(text)
    explained = expected or not bare or bare in kept or bare.startswith("#") or any(difflib.SequenceMatcher(None, bare, x).ratio() > _ALIKE for x in likely) or "SC311" in known
    return Line("-", number, text, rules if expected else known[:1] if explained else (), explained)
