"""A change as a whole: explained, for a human, missing, hazards, notes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaffold.check.config import Config
from scaffold.check.files import Tree, found
from scaffold.check.finding import Finding
from scaffold.check.run import check
from scaffold.errors import ScaffoldError
from scaffold.review.change import Expected, FileChange, Hunk, compare
from scaffold.review.sides import Sides

if TYPE_CHECKING:
    from scaffold.source.rewrite import Rewritten


@dataclass
class Review:
    """Everything that is to be said of a change."""

    title: str
    files: list[FileChange]
    hazards: list[Finding]
    notes: list[str] = field(default_factory=list)
    verified: dict[str, Any] | None = None

    @property
    def explained(self) -> list[Hunk]:
        """Hunks that rules explain to the last line."""
        return [h for f in self.files for h in f.hunks if not h.open_lines and h.rules]

    @property
    def plain(self) -> list[Hunk]:
        """Hunks of comments, imports and moved lines."""
        return [h for f in self.files for h in f.hunks if not h.open_lines and not h.rules]

    @property
    def for_a_human(self) -> list[Hunk]:
        """Hunks with lines that no rule explains, those that change what training depends on first."""
        return sorted((h for f in self.files for h in f.hunks if h.open_lines), key=lambda h: not h.setting)

    @property
    def missing(self) -> list[tuple[str, Expected]]:
        """What a conversion would have changed as well, by file."""
        return [(f.path, e) for f in self.files for e in f.missing]

    @property
    def failed(self) -> bool:
        """Whether anything needs a human before the change is merged."""
        return bool(self.for_a_human or self.missing or any(h.severity == "error" for h in self.hazards) or (self.verified or {}).get("fails"))


def review(sides: Sides, verified: Path | None = None) -> Review:
    """Compare a change with what ``scaffold convert`` makes of the files before it.

    Raises:
        ScaffoldError: the summary of ``verify`` cannot be read.
    """
    expected, notes = _expected(sides)
    files = [compare(name, _text(sides.before / name), _text(sides.after / name), expected.get(name, [])) for name in sides.changed]
    files += [FileChange(name, missing=edits) for name, edits in expected.items() if name not in sides.changed]
    return Review(sides.title, files, _hazards(sides), notes, _verified(verified) if verified else None)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _expected(sides: Sides) -> tuple[dict[str, list[Expected]], list[str]]:
    """What conversions of the base's scripts change, by file; only scripts that the change touches, or whose modules it does."""
    from scaffold.convert import convert
    from scaffold.plan import Options
    from scaffold.report.batch import batch_line, rate_line

    changed = {(sides.before / n).resolve() for n in sides.changed}
    edits: dict[str, list[Expected]] = {}
    notes: list[str] = []
    after = "\n".join(_text(sides.after / n) for n in sides.changed)
    strategy = "fsdp2" if "fully_shard" in after else "ddp"
    for program in Tree(found([sides.before])).programs:
        entry = program[0]
        if not changed & {p.resolve() for p in program} or not _becomes_distributed(sides, program):
            continue
        name = entry.relative_to(sides.before).as_posix()
        try:
            conversion = convert(entry, Options(strategy=strategy))
        except ScaffoldError as error:
            notes.append(f"{name}: no conversion to compare with: {error}".replace(f"{sides.before}/", ""))
            continue
        for diagnostic in conversion.errors:
            notes.append(f"{name}: a conversion would stop at line {diagnostic.line} ({diagnostic.rule}): {diagnostic.why}. {diagnostic.do}")
        notes += [f"{name}: strategy: {strategy.upper()}", f"{name}: batch: {batch_line(conversion.plan)}", f"{name}: learning rate: {rate_line(conversion.plan)}"]
        for file in conversion.changed:
            path = file.source.path.resolve()
            if path.is_relative_to(sides.before.resolve()):
                edits.setdefault(path.relative_to(sides.before.resolve()).as_posix(), []).extend(_changes(file))
    return edits, notes


def _becomes_distributed(sides: Sides, program: list[Path]) -> bool:
    """Whether the change brings several processes into a program that had one."""
    words = ("torch.distributed", "DistributedDataParallel", "fully_shard", "DistributedSampler")
    before = any(w in _text(p) for p in program for w in words)
    after = any(w in _text(sides.after / p.relative_to(sides.before)) for p in program for w in words)
    return after and not before


def _changes(file: Rewritten) -> list[Expected]:
    from scaffold.source.patch import changes

    return [Expected(c.start, c.end, [x.rstrip("\n") for x in c.new], tuple(c.rules)) for c in changes(file)]


def _hazards(sides: Sides) -> list[Finding]:
    """Faults after the change that were not there before."""

    def found_in(side: Path) -> list[Finding]:
        result = check([side], Config(root=side), notes=False)
        return [Finding(str(Path(f.path).relative_to(side)), f.line, f.rule, f.severity, f.why, f.do, f.end_line) for f in result.findings]

    known = {(f.path, f.rule, f.why) for f in found_in(sides.before)}
    return [f for f in found_in(sides.after) if (f.path, f.rule, f.why) not in known]


def _verified(path: Path) -> dict[str, Any]:
    """The verdict in a report that ``scaffold verify --json`` printed."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        checks = [(c["id"], c["verdict"], c["evidence"]) for c in data["checks"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ScaffoldError(f"{path}: no report of `scaffold verify --json` ({type(error).__name__}); give the file that it printed") from None
    count = {v: sum(c[1] == v for c in checks) for v in ("holds", "fails", "can't tell")}
    return {"holds": count["holds"], "fails": count["fails"], "unknown": count["can't tell"], "failed": [f"{i}: {d}".rstrip(": ") for i, v, d in checks if v == "fails"]}
