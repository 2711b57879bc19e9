"""SARIF 2.1.0, as code scanning services read it. https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scaffold import __version__
from scaffold.check.finding import Finding

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(findings: Iterable[Finding], names: dict[str, str]) -> str:
    """One run with one result a finding. ``names`` gives the rules' names by ID; paths are relative to the working folder where they lie in it."""
    found = list(findings)
    rules = sorted({f.rule for f in found})
    run = {
        "tool": {"driver": {"name": "scaffold", "version": __version__, "rules": [_rule(r, names) for r in rules]}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(f, rules.index(f.rule)) for f in found],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(rule: str, names: dict[str, str]) -> dict[str, Any]:
    return {"id": rule, "name": _pascal(names.get(rule, rule)), "shortDescription": {"text": names.get(rule, rule).replace("-", " ")}}


def _pascal(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))


def _result(finding: Finding, index: int) -> dict[str, Any]:
    region = {"startLine": max(1, finding.line), "endLine": max(1, finding.line, finding.end_line)}
    location = {"physicalLocation": {"artifactLocation": {"uri": uri(finding.path)}, "region": region}}
    return {"ruleId": finding.rule, "ruleIndex": index, "level": finding.severity, "message": {"text": f"{finding.why}. To do: {finding.do}."}, "locations": [location]}


def uri(path: str) -> str:
    """A path as a URI reference: relative to the working folder if it lies in it."""
    return relative(path) or Path(path).resolve().as_uri()


def relative(path: str) -> str:
    """A path as seen from the working folder; empty if it lies outside."""
    full, here = Path(path).resolve(), Path.cwd().resolve()
    return full.relative_to(here).as_posix() if full.is_relative_to(here) else ""
