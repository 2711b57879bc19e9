"""``scaffold convert``: where the result goes, what is told, and the exit status."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Scaffold

BLOCKED = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader, TensorDataset\n" + (
    "data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\nloader = DataLoader(data, batch_size=8)\n"
    "model = nn.Linear(4, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    "for x, y in loader:\n    z = model(x)\n    loss = (z - y).std() + (z @ z.t()).max()\n"
    "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
)
"""A loss over the pairs of a batch, computed in the loop: no rule can give it the whole batch."""


def test_in_place(scaffold: Scaffold, committed: Path) -> None:
    before = committed.read_text()
    done = scaffold("convert", committed)
    assert done.code == 0 and "1 file converted for DDP, in place" in done.out and "SC201" in done.out
    assert "DistributedSampler(data)" in committed.read_text() and committed.read_text() != before
    again = scaffold("convert", committed)
    assert again.code == 0 and "is converted already" in again.out


def test_git_must_be_able_to_bring_it_back(scaffold: Scaffold, script: Path, git: Callable[..., str]) -> None:
    before = script.read_text()
    done = scaffold("convert", script)
    assert done.code == 2 and "not tracked by git" in done.err and script.read_text() == before
    git("init", "-q")
    git("add", "train.py")
    git("commit", "-qm", "before")
    script.write_text(before + "# more\n")
    done = scaffold("convert", script)
    assert done.code == 2 and "--allow-dirty" in done.err and script.read_text() == before + "# more\n"
    assert scaffold("convert", script, "--allow-dirty").code == 0
    assert "init_process_group" in script.read_text()


def test_the_patch_is_what_would_be_written(scaffold: Scaffold, committed: Path, git: Callable[..., str]) -> None:
    before = committed.read_bytes()
    done = scaffold("convert", committed, "--diff")
    assert done.code == 0 and committed.read_bytes() == before
    (committed.parent / "it.patch").write_text(done.out)
    git("apply", "it.patch")
    patched = committed.read_bytes()
    git("checkout", "-q", "train.py")
    assert scaffold("convert", committed).code == 0
    assert committed.read_bytes() == patched


def test_a_copy_of_the_project(scaffold: Scaffold, script: Path, training: str) -> None:
    (script.parent / "settings.json").write_text("{}")
    done = scaffold("convert", script, "-o", "out")
    assert done.code == 0 and script.read_text() == training
    out = script.parent / "out"
    assert "DistributedSampler(data)" in (out / "train.py").read_text() and (out / "settings.json").exists()
    assert scaffold("convert", script, "-o", "out").code == 2
    assert scaffold("convert", script, "-o", "out", "--allow-dirty").code == 0
    assert scaffold("convert", script, "-o", script).code == 2
    assert scaffold("convert", script, "-o", "new", "--diff").code == 2


def test_what_is_not_safe_is_not_written(scaffold: Scaffold, here: Path) -> None:
    path = here / "train.py"
    path.write_text(BLOCKED)
    done = scaffold("convert", path, "--allow-dirty")
    assert done.code == 1 and done.out == "" and path.read_text() == BLOCKED
    assert "train.py:10 SC3" in done.err and "--partial converts the rest" in done.err
    assert json.loads(scaffold("convert", path, "--json").out)["status"] == "blocked"
    partial = scaffold("convert", path, "--partial", "--allow-dirty")
    assert partial.code == 0
    assert "# TODO" in path.read_text() and "init_process_group" in path.read_text()


def test_chosen_rules(scaffold: Scaffold, script: Path) -> None:
    only = scaffold("convert", script, "--select", "SC2", "--diff").out
    assert "DistributedSampler" in only and "if rank == 0" not in only
    without = scaffold("convert", script, "--ignore", "sc601,SC203", "--diff").out
    assert "DistributedSampler" in without and "if rank == 0" not in without and "set_epoch" not in without
    none = scaffold("convert", script, "--select", "SC313")
    assert none.code == 0 and "needs no change" in none.out


def test_the_backend_is_the_chosen_one(scaffold: Scaffold, script: Path) -> None:
    assert 'init_process_group("gloo")' in scaffold("convert", script, "--diff", "-q").out
    assert 'init_process_group("mpi")' in scaffold("convert", script, "--backend", "mpi", "--diff", "-q").out


CHOICES = {"--batch global": "batch_size=per_rank(8)", "--scale-lr linear": "lr=0.1 * ", "--scale-lr sqrt": "lr=0.1 * "}


@pytest.mark.parametrize("choice", CHOICES)
def test_batch_and_learning_rate_follow_the_options(scaffold: Scaffold, script: Path, choice: str) -> None:
    plain = scaffold("convert", script, "--diff", "-q").out
    assert "lr=0.1)" in plain and "batch_size=8, sampler" in plain
    assert CHOICES[choice] in scaffold("convert", script, *choice.split(), "--diff", "-q").out


def test_how_much_is_told(scaffold: Scaffold, script: Path) -> None:
    quiet = scaffold("convert", script, "-o", "quiet", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    plain, verbose = scaffold("convert", script, "-o", "plain"), scaffold("convert", script, "-o", "verbose", "-v")
    assert "torchrun --standalone --nproc-per-node=2" in plain.out and "DistributedSampler(data)" not in plain.out
    assert "DistributedSampler(data)" in verbose.out


def test_json(scaffold: Scaffold, script: Path) -> None:
    data = json.loads(scaffold("convert", script, "-o", "out", "--json").out)
    assert data["status"] == "converted" and data["written"] == ["train.py"]
    assert "+loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))" in data["diff"]
    assert data["options"]["strategy"] == "ddp"


def test_report(scaffold: Scaffold, script: Path) -> None:
    assert scaffold("convert", script, "-o", "out", "--report", "report.md").code == 0
    report = (script.parent / "report.md").read_text()
    assert all(rule in report for rule in ("SC101", "SC201", "SC203", "SC301", "SC601")) and "```diff" in report
    assert scaffold("convert", script, "--diff", "--report", "report.py").code == 2


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_verified_before_it_is_written(scaffold: Scaffold, committed: Path) -> None:
    before = committed.read_text()
    wrong = scaffold("convert", committed, "--ignore", "SC201,SC203", "--verify")
    assert wrong.code == 1 and "does not train the same" in wrong.out and "data.disjoint" in wrong.out
    assert committed.read_text() == before
    right = scaffold("convert", committed, "--verify")
    assert right.code == 0 and "no check fails" in right.out and committed.read_text() != before
