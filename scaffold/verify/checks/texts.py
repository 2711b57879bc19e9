"""Text files written: logs, tables, histories."""

from __future__ import annotations

from pathlib import Path

from scaffold.verify.case import Case, judged, unknown
from scaffold.verify.checks.files import stable, written
from scaffold.verify.checks.output import compare_lines, incomparable_numbers, lines
from scaffold.verify.result import Check

SUFFIXES = {".csv", ".json", ".jsonl", ".log", ".md", ".out", ".tsv", ".txt", ".yaml", ".yml"}
LARGEST = 4 << 20
"""Bytes of a file beyond which it is data, not a record."""


def texts(case: Case) -> Check:
    """Whether text files that both runs wrote say the same."""
    id, title = "files.text", "logs and tables say what the original's say"
    theirs = {stable(path): path for rank in case.ranks for path in sorted(written(rank))}
    pairs = [(path, theirs[stable(path)]) for path in sorted(written(case.original)) if stable(path) in theirs]
    pairs = [(a, b) for a, b in pairs if _is_text(case.root_original / a) and _is_text(case.root_converted / b)]
    if case.crashed or case.outcome.hang:
        return unknown(id, title, "the run did not come to its end")
    if not pairs:
        return unknown(id, title, "no text file is written")
    missing: list[str] = []
    values: list[tuple[str, str]] = []
    for ours, other in pairs:
        gone, differ = compare_lines(_lines(case.root_original / ours), _lines(case.root_converted / other))
        missing += [f"{ours}: {line[:200]!r} is missing" for line in gone]
        values += [(f"{ours}: {a[:200]}", b[:200]) for a, b in differ]
    incomparable = incomparable_numbers(case, values)
    if incomparable and not missing:
        return unknown(id, title, f"the same lines; their numbers can't be compared: {incomparable}")
    return judged(id, title, missing + [f"{a!r} is now {b!r}" for a, b in values], f"{len(pairs)} files")


def _is_text(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and path.is_file() and path.stat().st_size <= LARGEST


def _lines(path: Path) -> list[str]:
    return lines(path.read_text(encoding="utf-8", errors="replace"))
