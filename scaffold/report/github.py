"""Annotations of a GitHub Actions run. https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions"""

from __future__ import annotations

from collections.abc import Iterable

from scaffold.check.finding import Finding
from scaffold.report.sarif import relative

_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def commands(findings: Iterable[Finding]) -> str:
    """One workflow command a finding."""
    return "\n".join(
        f"::{_LEVELS[f.severity]} file={_property(relative(f.path) or f.path)},line={f.line},endLine={max(f.line, f.end_line)},title={_property(f'scaffold {f.rule}')}::{_data(f'{f.why}. To do: {f.do}')}" for f in findings
    )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
