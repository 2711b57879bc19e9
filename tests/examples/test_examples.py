"""Every example is converted, run in two processes, and compared with itself in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.pairs import SETTINGS, convert_example
from scaffold.verify import compare

SELDOM = {"data.draws", "data.split", "files.text", "resume.loads", "resume.same"}
"""Few scripts draw in each step, split one data set, write text files or resume."""


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
    assert [f"{check.id}: {check.evidence}" for check in report.failures] == []
    unknown = {check.id for check in report.checks if check.verdict == "can't tell"}
    assert unknown - SELDOM == pair.unknown.keys()
