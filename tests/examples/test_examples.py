"""Every example is converted, run in two processes, and compared with itself in one.

Where the script takes it, the runs are in double precision: rounding then neither hides nor feigns a difference.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from scaffold.convert import convert
from scaffold.plan import Options
from scaffold.verify import compare

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SETTINGS = tomllib.loads((EXAMPLES / "examples.toml").read_text())

SINGLE = {"trainer_class", "siamese", "regression_numpy", "segmentation", "weighted_classifier"}
"""These make 32-bit tensors from NumPy arrays, which layers of 64 bits do not take."""

OWN_BATCHES = {"char_gpt", "lstm_lm", "regression_numpy"}
"""These batch without a DataLoader, so the ranks are told their share of the batch on the command line or in the script."""

MAY_BE_UNKNOWN = {"data.draws", "data.split"}
"""Few scripts draw in each step, or split one data set."""

LOADERS = {"data.disjoint", "data.complete", "data.order"}
"""Checks of what DataLoaders read."""

NOISE = "the latents of each rank are its own"
COMPUTED = "the criterion has parameters, and verify takes its inputs, which another model computes, for data"
FREE = {
    "char_gpt": {
        "output.equal": "evaluation draws batches of its own, of the rank's size",
        "files.content": "the checkpoint keeps the command line, with the rank's batch size",
    },
    "dcgan": {"original.gradients": NOISE, "original.parameters": NOISE, "output.equal": NOISE},
    "vae": {"output.equal": "evaluation draws noise for each sample"},
    "finetune": {"original.gradients": COMPUTED, "original.parameters": COMPUTED, "output.equal": COMPUTED},
    "stream": {"data.complete": "there are steps, no epochs", "data.order": "there are steps, no epochs"},
}
"""Checks that need not hold, with the reason."""

def double(script: Path) -> None:
    """Let the script make 64-bit tensors."""
    text = script.read_text()
    first = re.search(r"^import torch.*\n", text, re.M)
    assert first is not None
    script.write_text(f"{text[: first.end()]}import torch; torch.set_default_dtype(torch.float64)\n{text[first.end() :]}")


def share_batch(script: Path, texts: list[str]) -> None:
    """Divide a batch size that is written in the script."""
    before, after = texts
    text = script.read_text()
    assert text.count(before) == 1
    script.write_text(text.replace(before, after))


@pytest.mark.parametrize("name", SETTINGS)
def test_example_trains_the_same(name: str, tmp_path: Path) -> None:
    settings = SETTINGS[name]
    original = shutil.copytree((EXAMPLES / settings["script"]).parent, tmp_path / "original") / Path(settings["script"]).name
    if name not in SINGLE:
        double(original)
    conversion = convert(original, Options())
    assert conversion.errors == []
    converted = shutil.copytree(original.parent, tmp_path / "converted")
    for file in conversion.files:
        (converted / file.source.name).write_bytes(file.encoded())
    if "rank_constant" in settings and name in OWN_BATCHES:
        share_batch(converted / original.name, settings["rank_constant"])
    args = [*settings["args"], *settings.get("quick", [])]
    told = settings["rank_args"] if name in OWN_BATCHES else None
    resume = settings.get("resume")
    report = compare(
        original, converted / original.name, original_args=args, converted_args=told, resume_args=resume, resumes=resume is not None
    )
    free = FREE.get(name, {}).keys() | (LOADERS if name in OWN_BATCHES else set())
    wrong = [
        f"{check.id} {check.verdict}: {check.evidence}"
        for check in report.checks
        if check.id not in free and check.verdict != "holds" and not (check.id in MAY_BE_UNKNOWN and check.verdict == "can't tell")
    ]
    assert wrong == []
