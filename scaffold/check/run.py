"""All checks on all programs, side by side on the processors there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from scaffold.check.checks import all_checks
from scaffold.check.code import Code
from scaffold.check.config import Config
from scaffold.check.files import Tree, found
from scaffold.check.finding import Finding
from scaffold.check.noqa import silenced
from scaffold.check.program import Program
from scaffold.check.reading import Reading
from scaffold.check.single import conversions

_FEW = 8


@dataclass(frozen=True)
class Result:
    """What was found, in order of path and line, in how many files."""

    findings: list[Finding]
    files: int


@dataclass(frozen=True)
class _Part:
    findings: list[Finding]
    single: Path | None


def check(paths: Iterable[Path], config: Config, progress: Callable[[str], None] = lambda _: None, notes: bool = True) -> Result:
    """Check the files at ``paths``.

    Raises:
        ScaffoldError: a path does not exist.
    """
    files = [f for f in found(paths) if not config.excludes(f)]
    tree = Tree(files)
    programs = tree.programs
    progress(f"Python files: {len(files)}; that train or know of ranks: {len(tree.marked)}")
    workers = min(os.cpu_count() or 1, len(programs))
    if len(programs) < _FEW or workers < 2:
        parts = [_program(p) for p in programs]
    else:
        by_size = sorted(programs, key=lambda p: -sum(len(tree.content(f)) for f in p))
        with ProcessPoolExecutor(workers) as pool:
            parts = list(pool.map(_program, by_size, chunksize=4))
    every = {f for part in parts for f in part.findings}
    single = sorted(p.single for p in parts if p.single is not None)
    if notes:
        every |= set(conversions(single, progress))
    wanted = {f for f in every if config.wants(f.rule, Path(f.path))}
    return Result(_spoken(wanted), len(files))


def _spoken(findings: set[Finding]) -> list[Finding]:
    """Without those that a comment silences, and one for each place and rule."""
    lines: dict[str, list[str]] = {}
    kept: dict[tuple[str, int, str], Finding] = {}
    for finding in sorted(findings):
        if finding.path not in lines:
            lines[finding.path] = Path(finding.path).read_text(encoding="utf-8", errors="replace").splitlines()
        if not silenced(lines[finding.path], finding.line, finding.end_line or finding.line, finding.rule):
            kept.setdefault((finding.path, finding.line, finding.rule), finding)
    return list(kept.values())


@lru_cache(maxsize=256)
def _code(path: Path, text: str) -> Code:
    """A file, parsed once for all programs that read it."""
    return Code(path, str(path), text)


def _program(paths: list[Path]) -> _Part:
    codes: list[Code] = []
    findings: list[Finding] = []
    for path in paths:
        try:
            codes.append(_code(path, path.read_text(encoding="utf-8")))
        except (SyntaxError, ValueError, RecursionError) as error:
            if path is paths[0]:
                line = getattr(error, "lineno", None) or 1
                findings.append(Finding(str(path), line, "SC001", "warning", f"not checked: not Python 3 ({error.__class__.__name__})", "mend it"))
    if not codes or codes[0].path != paths[0]:
        return _Part(findings, None)
    program = Program(codes)
    if program.framework:
        return _Part(findings, None)
    if not program.distributed:
        return _Part(findings, paths[0] if program.trains else None)
    reading = Reading(program)
    for each in all_checks():
        findings += each.check(reading)
    return _Part(findings, None)
