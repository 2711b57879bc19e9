"""From a script to its conversion: read, understand, refuse or plan, apply the rules, rewrite. Writes nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from scaffold.plan import Options, Plan
from scaffold.plan.reached import within_reach
from scaffold.refuse import check as check_refusals
from scaffold.roles.facts import Facts
from scaffold.rules import Diagnostic, all_rules
from scaffold.source.collectives import guarded_collectives
from scaffold.source.edits import Author
from scaffold.source.project import Project
from scaffold.source.rewrite import Change, Rewritten, rewrite


@dataclass(frozen=True, repr=False)
class Conversion:
    """What a conversion would do: the new text of each file, and what the user must know."""

    plan: Plan
    files: tuple[Rewritten, ...]
    diagnostics: tuple[Diagnostic, ...]
    acted: tuple[tuple[str, int], ...]

    @property
    def changed(self) -> list[Rewritten]:
        """The files whose text differs."""
        return [f for f in self.files if f.text != f.source.text]

    @property
    def errors(self) -> list[Diagnostic]:
        """Diagnostics that stop the conversion."""
        return [d for d in self.diagnostics if d.severity == "error"]


def convert(entry: Path, options: Options) -> Conversion:
    """Convert the script at ``entry``.

    Raises:
        ScaffoldError: the input cannot be read.
        Refused: the script must be left alone; the message says what to do instead.
    """
    project = Project(entry)
    facts = Facts.of(project, global_batch=options.batch == "global")
    check_refusals(facts)
    plan = Plan.of(project, options, facts)
    changes: list[Change] = []
    diagnostics: list[Diagnostic] = []
    for rule in all_rules():
        if options.enabled(rule.id):
            author = Author(rule.id, rule.summary)
            diagnostics += rule.apply(plan, author)
            changes += author.edits
    changes, diagnostics = within_reach(plan.facts, changes, diagnostics)
    files = tuple(rewrite(s, changes) for s in project.sources)
    diagnostics += _last_look(files)
    acted = Counter(r for f in files for r in {(e.rule, e.start) for e in f.edits})
    per_rule = Counter(rule for rule, _ in acted)
    unique = tuple(dict.fromkeys(diagnostics))
    return Conversion(plan, files, unique, tuple(sorted(per_rule.items())))


def _last_look(files: tuple[Rewritten, ...]) -> list[Diagnostic]:
    """Rules act without knowing of each other: whatever they made together, no collective may stand under a test for rank 0."""
    return [
        Diagnostic(
            "SC601", "error", file.source.name, 1, f"together, the edits would make a collective on rank 0 alone (line {line} of the result), and the others would wait for it",
            "--ignore SC601 leaves the output of all ranks as it is; please report the script",
        )
        for file in files
        if file.text != file.source.text
        for line in guarded_collectives(file.text)
    ]  # fmt: skip
