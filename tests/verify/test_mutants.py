"""Right conversions pass every check; each wrong version of them is refuted by one of the checks that are there for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from scaffold.verify import Report
from scaffold.verify.comparison import Comparison
from tests.verify.mutants import ALL, ARGUMENTS, PAIRS, Mutant

TIMEOUT = 40.0
"""Seconds for a converted run beyond the original's: those that hang end then."""


@pytest.fixture(scope="module")
def judged() -> Iterator[Callable[[str, Path], Report]]:
    """Judges a conversion of a pair; each pair's original runs once."""
    comparisons: dict[str, Comparison] = {}
    with ExitStack() as stack:

        def judge(pair: str, converted: Path) -> Report:
            original_args, converted_args = ARGUMENTS[pair]
            if pair not in comparisons:
                comparison = Comparison(PAIRS / pair / "train.py", original_args=original_args, timeout=TIMEOUT)
                comparisons[pair] = stack.enter_context(comparison)
            return comparisons[pair].against(converted, converted_args, resumes=False)

        yield judge


@pytest.mark.parametrize("pair", ARGUMENTS)
def test_a_right_conversion_passes(pair: str, judged: Callable[[str, Path], Report]) -> None:
    report = judged(pair, PAIRS / pair / "converted.py")
    assert [f"{c.id}: {c.evidence}" for c in report.checks if c.verdict == "fails"] == []


@pytest.mark.parametrize("mutant", ALL, ids=lambda m: f"{m.pair}-{m.name.replace(' ', '_')}")
def test_a_wrong_one_is_refuted(mutant: Mutant, tmp_path: Path, judged: Callable[[str, Path], Report]) -> None:
    script = tmp_path / "converted.py"
    script.write_text(mutant.text())
    failed = {c.id for c in judged(mutant.pair, script).checks if c.verdict == "fails"}
    assert failed & set(mutant.refuted_by), f"refuted by {sorted(failed) or 'nothing'}"
