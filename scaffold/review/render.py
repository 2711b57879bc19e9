"""A review as text, Markdown for a pull request, HTML side by side, JSON, SARIF or annotations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache
from typing import Any

from scaffold.check.finding import Finding
from scaffold.check.output import cell, names
from scaffold.report.github import commands
from scaffold.report.sarif import sarif
from scaffold.review.change import Hunk
from scaffold.review.review import Review
from scaffold.templates import render

LIMIT = 65_000
"""Characters of a comment on GitHub (65,536), with room for what a workflow adds."""
_SHOWN = ((10**6, 60), (60, 30), (25, 15), (10, 8), (3, 4), (0, 3))
"""How many hunks of a kind, and lines of a hunk, are shown, until a comment is short enough."""


@cache
def summaries() -> dict[str, str]:
    """What each rule does, in a sentence."""
    from scaffold.rules import all_rules

    return {r.id: r.summary.replace("``", "`") for r in all_rules()}


def headline(review: Review) -> str:
    """The result in one line."""
    parts = [
        _some(len(review.explained), "hunk", "explained by rules"),
        _some(len(review.for_a_human), "hunk", "for a human") if review.for_a_human else "",
        _some(len(review.missing), "change", "missing") if review.missing else "",
        _some(len(review.hazards), "hazard", "introduced") if review.hazards else "",
        "verified" if review.verified and not review.verified["fails"] else "verification FAILED" if review.verified else "",
    ]
    return ", ".join(p for p in parts if p)


def _some(number: int, what: str, how: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'} {how}"


def findings(review: Review) -> list[Finding]:
    """Everything that needs a look, as findings of the files after the change."""
    found = list(review.hazards)
    for hunk in review.for_a_human:
        first = hunk.open_lines[0]
        line = next((x.number for x in hunk.open_lines if x.sign == "+"), hunk.line)
        what = "changes what training depends on, and no rule explains it" if hunk.setting else "no rule of a conversion explains this"
        found.append(Finding(hunk.path, line, "SC901", "warning", f"{what}: {first.text.strip()[:80]}", "let a human decide whether it belongs to the conversion"))
    for path, edit in review.missing:
        found.append(Finding(path, edit.start + 1, edit.rules[0], "warning", f"a conversion changes this as well: {summaries().get(edit.rules[0], '')}", " / ".join(x.strip() for x in edit.new if x.strip())[:200]))
    return found


def as_json(review: Review) -> str:
    """``title``, ``headline``, ``hunks`` with lines and rules, ``missing``, ``hazards``, ``notes``, ``verified``."""
    hunks = [{"path": h.path, "line": h.line, "rules": h.rules, "as_converted": h.as_converted, "setting": h.setting, "open": [asdict(x) for x in h.open_lines]} for f in review.files for h in f.hunks]
    data = {
        "title": review.title, "headline": headline(review), "failed": review.failed, "hunks": hunks,
        "missing": [{"path": p, **asdict(e)} for p, e in review.missing], "hazards": [asdict(f) for f in review.hazards], "notes": review.notes, "verified": review.verified,
    }  # fmt: skip
    return json.dumps(data, indent=2)


def text(review: Review) -> str:
    """For a terminal."""
    return "\n".join(_text(review))


def _text(review: Review) -> Iterator[str]:
    yield f"{review.title}: {headline(review)}"
    for hunk in review.for_a_human:
        yield f"\n{hunk.path}:{hunk.line}: for a human{' (changes what training depends on)' if hunk.setting else ''}"
        yield from (f"    {x.sign} {x.text}" for x in hunk.open_lines)
    for path, edit in review.missing:
        yield f"\n{path}:{edit.start + 1}: missing: {', '.join(edit.rules)} {summaries().get(edit.rules[0], '')}"
        yield from (f"    + {x}" for x in edit.new)
    for f in review.hazards:
        yield f"\n{f.path}:{f.line}: {f.rule} {f.severity}: {f.why}\n    {f.do}"
    if review.explained:
        yield "\nExplained:"
    for hunk in review.explained:
        yield f"  {hunk.path}:{hunk.line}: {', '.join(hunk.rules)}{'' if hunk.as_converted else ' (by hand)'}: {summaries().get(hunk.rules[0], '')}"
    if review.verified:
        yield f"\nverify: {review.verified['holds']} hold, {review.verified['fails']} fail, {review.verified['unknown']} can't tell"
        yield from (f"  {x}" for x in review.verified["failed"])
    yield from (f"\nnote: {n}" for n in review.notes)


def markdown(review: Review) -> str:
    """For a comment: parts that need a look are open, the rest is folded; never longer than GitHub takes."""
    for hunks, lines in _SHOWN:
        told = render("report/review.md", review=review, headline=headline(review), hunks=hunks, lines=lines, summaries=summaries(), fence=_fence, cell=cell)
        if len(told) <= LIMIT:
            return told
    return told[: LIMIT - 40].rsplit("\n", 1)[0] + "\n\n(cut to GitHub's limit)\n"


def _fence(hunk: Hunk, most: int) -> str:
    """A hunk as a fenced diff."""
    shown = [f"{x.sign}{x.text}"[:300] for x in hunk.lines][:most]
    more = len(hunk.lines) - len(shown)
    ticks = "`" * max(3, 1 + max((len(run) for x in shown for run in _runs(x)), default=0))
    return "\n".join([f"{ticks}diff", *shown, *([f"# … {more} more lines"] if more > 0 else []), ticks])


def _runs(line: str) -> list[str]:
    return ["`" * n for n in range(1, 9) if "`" * n in line]


def html(review: Review) -> str:
    """One file, before and after side by side, the rules between them."""
    return render("report/review.html", review=review, headline=headline(review), summaries=summaries(), pairs=_pairs)


def _pairs(hunk: Hunk) -> list[dict[str, Any]]:
    """Rows of two columns: lines taken out stand beside lines put in."""
    rows: list[dict[str, Any]] = []
    taken: list[Any] = []
    added: list[Any] = []

    def flush() -> None:
        for i in range(max(len(taken), len(added))):
            rows.append({"old": taken[i] if i < len(taken) else None, "new": added[i] if i < len(added) else None, "same": False})
        taken.clear()
        added.clear()

    for line in hunk.lines:
        if line.sign == " ":
            flush()
            rows.append({"old": line, "new": line, "same": True})
        else:
            (taken if line.sign == "-" else added).append(line)
    flush()
    return rows


def _sarif(review: Review) -> str:
    return sarif(findings(review), {**names(), "SC901": "for-a-human"})


def _github(review: Review) -> str:
    return commands(findings(review))


FORMATS: dict[str, Callable[[Review], str]] = {"text": text, "markdown": markdown, "html": html, "json": as_json, "github": _github, "sarif": _sarif}
