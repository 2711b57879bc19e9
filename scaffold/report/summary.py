"""One conversion as plain data: what every renderer shows."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from scaffold.convert import Conversion
from scaffold.report.batch import batch_line, rate_line
from scaffold.rules import Diagnostic, all_rules
from scaffold.source.patch import Hunk, hunks


@dataclass(frozen=True)
class RuleUse:
    """A rule that acted, and at how many places."""

    id: str
    name: str
    places: int
    why: str


@dataclass(frozen=True)
class FileChange:
    """A changed file, relative to the project."""

    path: str
    hunks: tuple[Hunk, ...]


@dataclass(frozen=True)
class Summary:
    """What a conversion did (or would do); ``command`` starts the result,
    ``decision`` says why the strategy was chosen."""

    script: str
    strategy: str
    rules: tuple[RuleUse, ...]
    files: tuple[FileChange, ...]
    diagnostics: tuple[Diagnostic, ...]
    batch: str
    learning_rate: str
    command: str
    decision: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that stop a conversion."""
        return tuple(d for d in self.diagnostics if d.severity == "error")

    def rule_name(self, rule: str) -> str:
        """A rule's short name, '' for one that did not act."""
        return next((r.name for r in self.rules if r.id == rule), "")

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def summarise(conversion: Conversion, script: Path, target: Path, arguments: tuple[str, ...] = ()) -> Summary:
    """Collect what is known about a conversion; ``target`` is where the converted script will be."""
    known = {rule.id: rule for rule in all_rules()}
    used = tuple(
        RuleUse(i, known[i].name, places, known[i].summary.replace("``", "`"))
        for i, places in conversion.acted
    )
    files = tuple(FileChange(f.source.name, tuple(hunks(f))) for f in conversion.changed)
    command = shlex.join(["torchrun", "--standalone", "--nproc-per-node=2", str(target), *arguments])
    return Summary(
        str(script),
        conversion.plan.options.strategy,
        used,
        files,
        tuple(replace(d, path=str(script.parent / d.path)) for d in conversion.diagnostics),
        batch_line(conversion.plan),
        rate_line(conversion.plan),
        command,
    )
