"""One process against two, and runs that are interrupted, on the CPU."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

ROOT = Path(__file__).resolve().parents[1]


def start(folder: Path, processes: int, *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "--max-restarts=2"]
    command += [str(ROOT / "train.py"), "--steps", "24", "--log-every", "8", "--save-every", "8", *arguments]
    command += ["--checkpoints", str(folder)]
    return subprocess.Popen(command, cwd=folder.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def train(folder: Path, processes: int, *arguments: str) -> str:
    run = start(folder, processes, *arguments)
    output, _ = run.communicate(timeout=240)
    assert run.returncode == 0, output
    return output


def parameters(folder: Path) -> dict[str, torch.Tensor]:
    newest = max(folder.glob("step-*"))
    dcp_to_torch_save(newest, newest / "whole.pt")
    state = torch.load(newest / "whole.pt", weights_only=False)["model"]
    (newest / "whole.pt").unlink()
    return state


def assert_same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor], tolerance: float) -> None:
    assert a.keys() == b.keys()
    for key in a:
        torch.testing.assert_close(a[key], b[key], rtol=0, atol=tolerance)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two") / "checkpoints"
    train(folder, 2, "--batch", "16")
    return folder


def test_two_processes_train_as_one(two: Path, tmp_path: Path) -> None:
    output = train(tmp_path / "checkpoints", 1, "--batch", "32")
    assert len(re.findall(r"^step ", output, re.M)) == 3
    assert_same(parameters(two), parameters(tmp_path / "checkpoints"), 1e-4)


def test_a_signal_saves_and_the_run_goes_on(two: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    run = start(folder, 2, "--batch", "16")
    while not list(folder.glob("step-*")):
        time.sleep(0.02)
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=120)
    assert "going on from step" in train(folder, 2, "--batch", "16") or len(list(folder.glob("step-*24"))) == 1
    assert_same(parameters(two), parameters(folder), 1e-6)


def test_a_broken_checkpoint_is_passed_over(two: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    train(folder, 2, "--batch", "16", "--steps", "16")
    for part in max(folder.glob("step-*")).glob("*.distcp"):
        part.write_bytes(part.read_bytes()[:100])
    assert "going on from step 8" in train(folder, 2, "--batch", "16")
    assert_same(parameters(two), parameters(folder), 1e-6)


def test_another_number_of_processes(two: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    train(folder, 2, "--batch", "16", "--steps", "16")
    assert "going on from step 16" in train(folder, 1, "--batch", "32")
    assert_same(parameters(two), parameters(folder), 1e-4)


