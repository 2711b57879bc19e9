"""Generated repositories: every choice, and updates."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
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
