"""``scaffold measure``: real runs on the CPU, and the cost that follows from what was measured."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from scaffold.cost.model import BUCKET, all_reduce, efficiency
from scaffold.cost.numbers import Range
from tests.cli.conftest import Scaffold

SLOW = """
import os, time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
model = DDP(nn.Linear(10, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1000):
    loss = model(torch.randn(16, 10)).sum()
    optimizer.zero_grad()
    loss.backward()
    time.sleep(0.03 if dist.get_world_size() == 1 else 0.06)
    optimizer.step()
dist.destroy_process_group()
"""
"""Steps of 30 ms on one process and 60 ms on two: an efficiency of one half."""


def measured(scaffold: Scaffold, *words: object) -> Any:
    done = scaffold("measure", *words, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_scaling_is_measured(scaffold: Scaffold, here: Path) -> None:
    (here / "train.py").write_text(SLOW)
    found = measured(scaffold, "train.py", "--nproc", "2,1", "--steps", "20", "--warmup", "3")
    one, two = found["sizes"]
    assert (one["nproc"], two["nproc"]) == (1, 2) and one["steps"] == two["steps"] == 20
    assert 0.030 <= one["step_seconds"]["expected"] < two["step_seconds"]["expected"] and two["step_seconds"]["expected"] >= 0.060
    assert 0.3 < two["efficiency"]["expected"] < 0.9
    assert two["efficiency"]["low"] <= two["efficiency"]["expected"] <= two["efficiency"]["high"]
    assert one["samples_per_second"]["expected"] == pytest.approx(16 / one["step_seconds"]["expected"])
    assert two["samples_per_second"]["expected"] == pytest.approx(32 / two["step_seconds"]["expected"])
    assert found["gradient_bytes"] == 11 * 4 and found["model"] == []
    assert "on the CPU" in found["notes"][0]
    assert sorted(p.name for p in here.iterdir()) == ["train.py"]

    (here / "measured.json").write_text(json.dumps(found))
    done = scaffold("cost", "--hours", "10", "--gpus", "1", "--price", "1", "--measured", "measured.json", "--json")
    setups = json.loads(done.out)["setups"]
    assert setups[1]["basis"] == "measured"
    assert float(setups[1]["efficiency"]["expected"]) == pytest.approx(two["efficiency"]["expected"], abs=1e-3)
    shown = scaffold("cost", "--hours", "10", "--gpus", "1", "--price", "1", "--measured", "measured.json").out
    assert "(measured)" in shown and "measured: train.py on 1, 2 processes" in shown


def test_a_conversion_is_measured_and_one_size_gives_a_model(scaffold: Scaffold, script: Path) -> None:
    script.write_text(script.read_text().replace("range(2)", "range(40)"))
    assert scaffold("convert", script, "-o", "out", "-q").code == 0
    found = measured(scaffold, "out/train.py", "--nproc", "2", "--steps", "20", "--warmup", "2", "--bandwidth", "1,10,100")
    assert [m["nodes"] for m in found["model"]] == [2, 4, 8]
    assert all(0 < m["efficiency"]["low"] <= m["efficiency"]["expected"] <= m["efficiency"]["high"] <= 1 for m in found["model"])
    (script.parent / "measured.json").write_text(json.dumps(found))
    words = ["cost", "--hours", "10", "--gpus", "8", "--price", "1", "--measured", "measured.json"]
    setups = json.loads(scaffold(*words, "--json").out)["setups"]
    assert setups[1]["basis"] == "model"
    text = " ".join(scaffold(*words).out.split())
    assert "(model)" in text and "model, not measured" in text and "25 to 400 Gbit/s" in text


def test_the_model_by_hand() -> None:
    # 8 GB of gradients over 2 machines at 64 Gbit/s: 8 GB travel at 8 GB/s
    size = Decimal(8 * 10**9)
    assert all_reduce(size, 2, Decimal(64)) == 1
    assert all_reduce(size, 4, Decimal(64)) == Decimal("1.5")
    found = efficiency(Decimal(3), size, 2, Range.exactly(Decimal(64)))
    assert found.low == Decimal(3) / 4 and found.high == 1
    last = BUCKET / size
    assert abs(found.expected - 3 / (3 + last)) < Decimal("1e-9")
    bound = efficiency(Decimal("0.5"), size, 2, Range.exactly(Decimal(64)))
    assert bound.high == Decimal("0.5") and bound.low < bound.expected < bound.high


def test_a_script_of_one_process_is_told(scaffold: Scaffold, script: Path) -> None:
    script.write_text(script.read_text().replace("range(2)", "range(40)"))
    done = scaffold("measure", script, "--nproc", "2", "--steps", "10", "--warmup", "1")
    assert done.code == 2 and "convert the script first" in done.err


@pytest.mark.parametrize(
    ("text", "words", "told"),
    [
        (SLOW.replace("1000", "5"), "--nproc 1", "took 5 optimizer steps; at least 20 are needed"),
        (SLOW.replace("time.sleep(", "1 / 0; ("), "--nproc 1", "ended with ZeroDivisionError"),
        (SLOW, "--nproc 0", "--nproc 0: give numbers of processes"),
        (SLOW, "--nproc two", "--nproc two: give numbers of processes"),
        (SLOW, "--nproc 1 --bandwidth fast", "--bandwidth 'fast': is not a number"),
        (SLOW.replace("0.03", "9"), "--nproc 1 --timeout 4", "no end after 4 s"),
    ],
    ids=["few steps", "fails", "zero", "no number", "bandwidth", "timeout"],
)
def test_wrong_input(scaffold: Scaffold, here: Path, text: str, words: str, told: str) -> None:
    (here / "train.py").write_text(text)
    done = scaffold("measure", "train.py", *words.split())
    last = done.err.splitlines()[-1]
    assert (done.code, done.out) == (2, "") and told in last and last.startswith("scaffold: ")


@pytest.mark.parametrize("text", ["", "{}", '{"schema": "scaffold-measure/1"}', "[1]", '{"schema": "other"}'])
def test_what_is_no_measurement(scaffold: Scaffold, here: Path, text: str) -> None:
    (here / "it.json").write_text(text)
    done = scaffold("cost", "--hours", "1", "--measured", "it.json")
    assert done.code == 2 and "is no measurement" in done.err
