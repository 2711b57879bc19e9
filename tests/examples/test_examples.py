"""Every example is converted, run in two processes, and compared with itself in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.pairs import SETTINGS, convert_example
from scaffold.verify import compare

MAY_BE_UNKNOWN = {"data.draws", "data.split"}
"""Few scripts draw in each step, or split one data set."""


@pytest.mark.parametrize("name", SETTINGS)
def test_example_trains_the_same(name: str, tmp_path: Path) -> None:
    pair = convert_example(name, tmp_path)
    report = compare(
        pair.original,
        pair.converted,
        original_args=pair.args,
        converted_args=pair.rank_args,
        resume_args=pair.resume,
        resumes=pair.resume is not None,
    )
    wrong = [
        f"{check.id} {check.verdict}: {check.evidence}"
        for check in report.checks
        if check.id not in pair.free and check.verdict != "holds" and not (check.id in MAY_BE_UNKNOWN and check.verdict == "can't tell")
    ]
    assert wrong == []
