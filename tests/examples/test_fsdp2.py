"""Examples converted for FSDP2 train as one process does, and their checkpoints are the original's."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.pairs import convert_example
from scaffold.plan import Options
from scaffold.verify import compare


@pytest.mark.parametrize(("name", "nproc"), [("char_gpt", 2), ("trainer_class", 2), ("mnist_main", 4)])
def test_sharded_example_trains_the_same(name: str, nproc: int, tmp_path: Path) -> None:
    pair = convert_example(name, tmp_path, Options(strategy="fsdp2"))
    report = compare(
        pair.original,
        pair.converted,
        nproc=nproc,
        original_args=pair.args,
        converted_args=pair.rank_args,
        resume_args=pair.resume,
        resumes=pair.resume is not None,
    )
    verdicts = {check.id: check.verdict for check in report.checks}
    assert [f"{check.id}: {check.evidence}" for check in report.failures] == []
    assert verdicts["original.parameters"] == verdicts["files.content"] == "holds"
    assert pair.resume is None or verdicts["resume.same"] == verdicts["resume.loads"] == "holds"
