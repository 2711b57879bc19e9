"""Values with spaces, quotes, $, newlines and other scripts arrive as they were given, in every target; wrong input is one line."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scaffold.cli import main
from scaffold.launch.job import Job
from scaffold.launch.render import render
from tests.launch.platform import container, documents

TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=12)
HOSTILE = ["a b", "it's", '"q"', "$HOME", "`id`", "a\nb", "\\", "*", "日本", "--x=;rm", "#", "%x", "{{ a }}", "!", "\r", ""]
TELL = f'#!{sys.executable}\nimport json, os, sys\nopen(os.environ["TOLD"], "w").write(json.dumps(sys.argv[1:]))\n'


def shell_arguments(folder: Path, target: str, arguments: tuple[str, ...]) -> list[str]:
    """What the launcher in a rendered shell script gets behind the script's name."""
    (folder / "launch").mkdir(exist_ok=True)
    (folder / "bin").mkdir(exist_ok=True)
    for name in ("torchrun", "accelerate", "deepspeed", "nodus", "srun"):
        (folder / "bin" / name).write_text(TELL)
        (folder / "bin" / name).chmod(0o755)
    (folder / "bin" / "scontrol").write_text("#!/bin/sh\necho localhost\n")
    (folder / "bin" / "scontrol").chmod(0o755)
    files = render(Job("train.py", arguments, gpus_per_node=2), target).files
    text = files.get(f"{target}.sh") or files[f"{target}.yaml"]
    told = folder / "told.json"
    env = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "TOLD": str(told), "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "x", "SKYPILOT_NODE_IPS": "x"}
    if target in {"skypilot", "dstack"}:
        (task,) = documents(text)
        text = task["run"] if target == "skypilot" else "\n".join(task["commands"])
    (folder / "launch" / "run.sh").write_text(text, newline="")
    subprocess.run(["bash", "launch/run.sh"], cwd=folder, env=env, check=True, capture_output=True, timeout=20)
    given = json.loads(told.read_text())
    return list(given[given.index("train.py") + 1 :])


@pytest.mark.parametrize("target", ["torchrun", "slurm", "accelerate", "deepspeed", "nodus", "skypilot", "dstack"])
def test_arguments_through_a_shell(target: str, tmp_path: Path) -> None:
    assert shell_arguments(tmp_path, target, tuple(HOSTILE)) == HOSTILE


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TEXT, max_size=4))
def test_any_arguments_through_a_shell(tmp_path: Path, arguments: list[str]) -> None:
    assert shell_arguments(tmp_path, "torchrun", tuple(arguments)) == arguments


@settings(max_examples=50, deadline=None)
@given(st.lists(TEXT, max_size=4))
def test_any_arguments_through_yaml_and_python(arguments: list[str]) -> None:
    job = Job("train.py", tuple(arguments), nodes=2, gpus_per_node=8)
    kubernetes = documents(render(job, "kubernetes").files["kubernetes.yaml"])[1]
    assert container(kubernetes["spec"])["command"][-len(arguments) - 1 :] == ["train.py", *arguments]
    assert documents(render(job, "nodus").files["nodus.yaml"])[0]["spec"]["command"] == ["torchrun", "train.py", *arguments]
    assert documents(render(job, "trainjob").files["trainjob.yaml"])[0]["spec"]["trainer"]["command"] == ["torchrun", "--", "train.py", *arguments]
    tree = ast.parse(render(job, "ray").files["ray_train.py"])
    assert any(isinstance(n, ast.Assign) and ast.literal_eval(n.value) == ["train.py", *arguments] for n in tree.body if isinstance(n, ast.Assign) and isinstance(n.value, ast.List))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--gpus-per-node", "0"], "at least 1 GPU"),
        (["--target", "nodus", "--gpus-per-node", "3"], "the nearest is 4"),
        (["--target", "nodus", "--nodes", "9"], "8 machines at most"),
        (["--target", "slrum"], "did you mean slurm?"),
        (["--nodes", "-1"], "at least 1 machine"),
        (["--target", "verl"], "imports no verl"),
        (["--time", "0"], "at least 1 minute"),
        (["--max-cost", "much"], "an amount in dollars"),
    ],
)
def test_wrong_input_is_one_line(arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    done = CliRunner().invoke(main, ["launch", "train.py", "--target", "torchrun", *arguments])
    assert done.exit_code == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1
    assert not Path("launch").exists()


def test_files_are_written_where_they_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("src").mkdir()
    Path("src/train.py").write_text("")
    done = CliRunner().invoke(main, ["launch", "src/train.py", "--target", "torchrun,nodus", "-o", "deep/er", "--", "--lr", "1"])
    assert done.exit_code == 0, done.output
    text = Path("deep/er/torchrun.sh").read_text()
    assert "/../.." in text and "src/train.py --lr 1" in text
    assert Path("deep/er/torchrun.sh").stat().st_mode & 0o100
    assert "start it with  bash deep/er/torchrun.sh" in done.output
