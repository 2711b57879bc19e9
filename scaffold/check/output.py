"""Findings as text, JSON, Markdown, SARIF or annotations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict

from scaffold.check.checks import all_checks
from scaffold.check.finding import Finding
from scaffold.check.run import Result
from scaffold.report.github import commands
from scaffold.report.sarif import sarif

_OTHERS = {"SC000": "conversion", "SC001": "not-read", "SC308": "sync-batchnorm", "SC311": "data-parallel", "SC702": "whole-checkpoints"}


def names() -> dict[str, str]:
    """The name of each rule that findings may have."""
    from scaffold.rules import all_rules

    return {**_OTHERS, **{c.id: c.name for c in all_checks()}, **{r.id: r.name for r in all_rules()}}


def text(result: Result) -> str:
    """``path:line: rule severity: what happens`` and what to do about it."""
    lines = [f"{f.path}:{f.line}: {f.rule} {f.severity}: {f.why}\n    {f.do}" for f in result.findings]
    return "\n".join([*lines, summary(result)])


def summary(result: Result) -> str:
    """How many of what, in one line."""
    count = Counter(f.severity for f in result.findings)
    if not result.findings:
        return f"All clear: {_some(result.files, 'file')}."
    told = ", ".join(_some(count[s], s) for s in ("error", "warning", "note") if count[s])
    return f"{told} in {_some(len({f.path for f in result.findings}), 'file')} ({result.files} looked at)."


def _some(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def as_json(result: Result) -> str:
    """``files`` and ``findings``, each with path, line, rule, severity, why, do."""
    return json.dumps({"files": result.files, "findings": [asdict(f) for f in result.findings]}, indent=2)


def markdown(result: Result) -> str:
    """A table, for a comment or a job's summary."""
    if not result.findings:
        return summary(result)
    rows = [f"| `{f.path}:{f.line}` | {f.rule} | {f.severity} | {cell(f.why)} | {cell(f.do)} |" for f in result.findings]
    return "\n".join([summary(result), "", "| where | rule | | what happens | what to do |", "|---|---|---|---|---|", *rows])


def cell(text: str) -> str:
    """Text that keeps to its cell of a Markdown table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _sarif(result: Result) -> str:
    return sarif(result.findings, names())


def _annotations(result: Result) -> str:
    return commands(result.findings)


FORMATS: dict[str, Callable[[Result], str]] = {"text": text, "json": as_json, "github": _annotations, "sarif": _sarif, "markdown": markdown}


def fails(findings: list[Finding]) -> bool:
    """Whether an error or a warning is among them: notes do not fail a run."""
    return any(f.severity in {"error", "warning"} for f in findings)
