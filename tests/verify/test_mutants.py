"""Right conversions pass every check; each wrong version of them is refuted by one of the checks that are there for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.verify import Report, compare
from tests.verify.mutants import ALL, ARGUMENTS, PAIRS, Mutant

TIMEOUT = 20.0
"""Seconds for a converted run beyond the original's: those that hang end then."""


def judged(pair: str, converted: Path) -> Report:
    original_args, converted_args = ARGUMENTS[pair]
    return compare(PAIRS / pair / "train.py", converted, original_args=original_args, converted_args=converted_args, timeout=TIMEOUT)


@pytest.mark.parametrize("pair", ARGUMENTS)
def test_a_right_conversion_passes(pair: str) -> None:
    report = judged(pair, PAIRS / pair / "converted.py")
    assert [f"{c.id}: {c.evidence}" for c in report.checks if c.verdict == "fails"] == []


@pytest.mark.parametrize("mutant", ALL, ids=lambda m: f"{m.pair}-{m.name.replace(' ', '_')}")
def test_a_wrong_one_is_refuted(mutant: Mutant, tmp_path: Path) -> None:
    script = tmp_path / "converted.py"
    script.write_text(mutant.text())
    failed = {c.id for c in judged(mutant.pair, script).checks if c.verdict == "fails"}
    assert failed & set(mutant.refuted_by), f"refuted by {sorted(failed) or 'nothing'}"
