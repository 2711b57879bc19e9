"""A conversion's summary for the terminal."""

from __future__ import annotations

from collections.abc import Iterable

import click

from scaffold.report.summary import Summary
from scaffold.report.table import paragraph, table
from scaffold.rules import Diagnostic

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


def diagnostics(found: Iterable[Diagnostic]) -> str:
    """Each diagnostic with its place, what would happen, and what to do."""
    blocks = []
    for item in sorted(found, key=lambda d: (d.path, d.line, d.rule)):
        kind = click.style(item.severity, fg=_COLOURS.get(item.severity), bold=True)
        head = f"{item.path}:{item.line} {item.rule} {kind}"
        blocks.append(
            f"{head}\n{paragraph(_sentence(item.why), '    ')}\n{paragraph('→ ' + item.do, '    ')}"
        )
    return "\n".join(blocks)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def summary(found: Summary, headline: str) -> str:
    """Why this strategy, the rules that acted, the diagnostics, the batch, the learning rate and the command."""
    parts = [click.style(headline, bold=True)]
    if found.decision:
        parts.append("\n".join(found.decision))
    rows = [(r.id, r.name, str(r.places), r.why) for r in found.rules]
    if rows:
        parts.append(table([("rule", "name", "places", "what it does"), *rows]))
    if found.diagnostics:
        parts.append(diagnostics(found.diagnostics))
    start = f"{found.command}  (2 GPUs; give the number that you have)"
    parts.append(
        table([("batch", found.batch), ("learning rate", found.learning_rate), ("start it with", start)])
    )
    return "\n\n".join(parts)


def hunks(found: Summary) -> str:
    """Every hunk under the rules that made it."""
    parts = []
    for file in found.files:
        for hunk in file.hunks:
            rules = ", ".join(f"{r} {found.rule_name(r)}".strip() for r in hunk.rules)
            parts.append(
                click.style(f"{file.path}:{hunk.line}  {rules}", bold=True) + "\n" + hunk.text.rstrip("\n")
            )
    return "\n\n".join(parts)
