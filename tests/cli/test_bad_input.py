"""Bad input gives one line on standard error that says what to do, and its exit status; nothing else happens."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Scaffold

CONTENT = {
    "notebook.ipynb": (b"{}", "is a notebook; export it first"),
    "python2.py": (b"import os\nprint 'loss'\n", "2: is Python 2; port it"),
    "binary.py": (b"\x7fELF\0\1", "is a binary file"),
    "broken.py": (b"x = 1\ny = (\n", "is not valid Python; fix the syntax"),
    "latin.py": (b"x = '\xe9'\n", "cannot be decoded"),
    "strange.py": (b"# coding: klingon\n", "cannot be decoded"),
}


def told(err: str) -> str:
    line, end = err.split("\n")
    assert line.startswith("scaffold: ") and end == ""
    return line


@pytest.mark.parametrize("command", ["convert", "inspect"])
@pytest.mark.parametrize("name", CONTENT)
def test_unusable_content(scaffold: Scaffold, here: Path, name: str, command: str) -> None:
    data, reason = CONTENT[name]
    (here / name).write_bytes(data)
    done = scaffold(command, name)
    assert (done.code, done.out) == (2, "")
    assert name in told(done.err) and reason in done.err
    assert (here / name).read_bytes() == data


@pytest.mark.parametrize("words", [("convert",), ("inspect",), ("verify", "--against", "other.py")], ids=lambda w: w[0])
def test_no_such_file(scaffold: Scaffold, here: Path, words: tuple[str, ...]) -> None:
    done = scaffold(*words, "nowhere.py")
    assert done.code == 2 and "nowhere.py" in told(done.err)


def test_a_folder(scaffold: Scaffold, here: Path) -> None:
    (here / "project.py").mkdir()
    done = scaffold("convert", "project.py")
    assert done.code == 2 and "project.py: is a folder; name the training script in it" in told(done.err)


def test_a_pipe(scaffold: Scaffold, here: Path) -> None:
    os.mkfifo(here / "pipe.py")
    done = scaffold("convert", "pipe.py")
    assert done.code == 2 and "pipe.py: is not a regular file" in told(done.err)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file(scaffold: Scaffold, script: Path) -> None:
    script.chmod(0)
    done = scaffold("convert", script)
    assert done.code == 2 and "cannot be read" in told(done.err)


def test_a_path_that_no_system_takes(scaffold: Scaffold, here: Path) -> None:
    done = scaffold("convert", "x" * 5000 + ".py")
    assert done.code == 2 and "name the training script" in told(done.err)


@pytest.mark.parametrize("text", ["", "# nothing\n", "import torch\n", "def train(): pass\n"])
def test_nothing_trains(scaffold: Scaffold, here: Path, text: str) -> None:
    (here / "train.py").write_text(text)
    done = scaffold("convert", "train.py")
    assert (done.code, done.out) == (3, "") and "no training loop was found" in told(done.err)


def test_distributed_already(scaffold: Scaffold, script: Path) -> None:
    script.write_text("import torch.distributed as dist\n" + script.read_text())
    done = scaffold("convert", script, "--diff")
    assert (done.code, done.out) == (3, "") and "is distributed already" in told(done.err) and "torchrun" in done.err


@pytest.mark.parametrize("option", ["--select", "--ignore"])
def test_no_such_rule(scaffold: Scaffold, script: Path, option: str) -> None:
    done = scaffold("convert", script, option, "SC299", "--diff")
    assert done.code == 2 and "SC299: no such rule; did you mean SC2" in told(done.err)


def test_no_such_option(scaffold: Scaffold, script: Path) -> None:
    done = scaffold("convert", script, "--strategy", "magic")
    assert done.code == 2 and "'magic' is not" in done.err and "Traceback" not in done.err


def test_errors_as_json(scaffold: Scaffold, here: Path) -> None:
    done = scaffold("convert", "nowhere.py", "--json")
    assert done.code == 2 and json.loads(done.out)["status"] == "error"
    (here / "empty.py").touch()
    done = scaffold("convert", "empty.py", "--json")
    assert done.code == 3 and json.loads(done.out)["status"] == "refused"


def test_a_fault_of_its_own(scaffold: Scaffold, script: Path, training: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def conflict(*_: object) -> None:
        raise RuntimeError("two edits claim the same bytes\nhere")

    monkeypatch.setattr("scaffold.convert.rewrite", conflict)
    done = scaffold("convert", script, "--allow-dirty")
    assert done.code == 1 and "nothing was written (RuntimeError: two edits claim the same bytes)" in told(done.err)
    assert script.read_text() == training
