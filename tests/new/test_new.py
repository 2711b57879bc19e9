"""Generated repositories: every choice, a run that loses a process, and updates."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from scaffold.cli import main
from scaffold.cli.new import QUESTIONS
from scaffold.templates import folder as templates

PAIRS = [
    ("ddp", "synthetic", "fp32", "none", "none"),
    ("ddp", "images", "bf16", "tensorboard", "MIT"),
    ("ddp", "tokens", "fp32", "wandb", "Apache-2.0"),
    ("fsdp2", "synthetic", "bf16", "wandb", "MIT"),
    ("fsdp2", "images", "fp32", "none", "Apache-2.0"),
    ("fsdp2", "tokens", "bf16", "tensorboard", "none"),
]
"""Every pair of strategy and data, and of the other choices with each strategy."""


def new(folder: Path, *arguments: str) -> None:
    done = CliRunner().invoke(main, ["new", str(folder), *arguments, "--defaults"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("answers", PAIRS, ids="-".join)
def test_every_choice_makes_a_clean_repository(answers: tuple[str, ...], tmp_path: Path) -> None:
    folder = tmp_path / "project"
    new(folder, *[f"--{name}={answer}" for name, answer in zip(QUESTIONS, answers, strict=True)])
    files = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert {"train.py", "model.py", "data.py", "checkpoint.py", "distributed.py", "launch/slurm.sh", "tests/test_training.py", ".copier-answers.yml"} <= files
    assert not any("{{" in (folder / f).read_text() or "{%" in (folder / f).read_text() for f in files)
    checked = subprocess.run([sys.executable, "-m", "ruff", "check", str(folder)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
    for path in folder.glob("*.py"):
        compile(path.read_text(), path.name, "exec")


def run(folder: Path, checkpoints: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=3", "train.py"]
    settings = ["--steps", "60", "--batch", "8", "--log-every", "20", "--save-every", "10", "--checkpoints", str(checkpoints)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*command, *settings], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def weights(checkpoints: Path) -> dict[str, torch.Tensor]:
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    newest = max(checkpoints.glob("step-*"))
    dcp_to_torch_save(newest, checkpoints / "whole.pt")
    loaded: dict[str, torch.Tensor] = torch.load(checkpoints / "whole.pt", weights_only=False)["model"]
    return loaded


def workers(launcher: int) -> list[int]:
    """The processes that torchrun started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rsplit(")", 1)[1].split()[1]) == launcher:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_a_killed_process_changes_nothing(strategy: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    new(folder, "--strategy", strategy)
    whole = run(folder, tmp_path / "whole")
    assert whole.communicate(timeout=180) and whole.returncode == 0
    killed = run(folder, tmp_path / "killed")
    while not list((tmp_path / "killed").glob("step-*")):
        time.sleep(0.01)
    os.kill(workers(killed.pid)[-1], signal.SIGKILL)
    output, _ = killed.communicate(timeout=180)
    assert killed.returncode == 0, output
    assert "going on from step" in output
    ours, theirs = weights(tmp_path / "whole"), weights(tmp_path / "killed")
    assert max(float((ours[key] - theirs[key]).abs().max()) for key in ours) <= 1e-6


def test_an_update_keeps_what_was_changed(tmp_path: Path) -> None:
    copier = pytest.importorskip("copier")
    source, project = tmp_path / "source", tmp_path / "project"

    def git(where: Path, *command: str) -> None:
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *command], cwd=where, check=True, capture_output=True)

    shutil.copytree(templates() / "project", source)
    git(source, "init", "-q")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "one")
    git(source, "tag", "1.0.0")
    new(project, "--template", str(source))
    git(project, "init", "-q")
    (project / "model.py").write_text("# ours\n" + (project / "model.py").read_text())
    git(project, "add", "-A")
    git(project, "commit", "-qm", "generated")
    loop = source / "template" / "checkpoint.py"
    loop.write_text(loop.read_text().replace("keep: int = 2", "keep: int = 5"))
    git(source, "commit", "-qam", "two")
    git(source, "tag", "2.0.0")
    copier.run_update(project, defaults=True, overwrite=True, quiet=True)
    assert (project / "model.py").read_text().startswith("# ours\n")
    assert "keep: int = 5" in (project / "checkpoint.py").read_text()
    assert "_commit: 2.0.0" in (project / ".copier-answers.yml").read_text()


@pytest.mark.parametrize(("name", "says"), [("My_Project", "my-project"), ("used", "in use")])
def test_wrong_names_are_one_line(name: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    done = CliRunner().invoke(main, ["new", str(tmp_path / name), "--defaults"])
    assert done.exit_code == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1
