"""Calling the command in this process, in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from scaffold.cli import main


@dataclass(frozen=True)
class Done:
    """What a call left behind."""

    code: int
    out: str
    err: str


Scaffold = Callable[..., Done]


@pytest.fixture
def scaffold(capfd: pytest.CaptureFixture[str]) -> Scaffold:
    """Runs ``scaffold`` with the given words."""

    def run(*words: object) -> Done:
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        out, err = capfd.readouterr()
        return Done(int(end.value.code or 0), out, err)

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def script(here: Path, training: str) -> Path:
    """A script that converts without a diagnostic, in no repository."""
    path = here / "train.py"
    path.write_text(training)
    return path


@pytest.fixture
def committed(script: Path, git: Callable[..., str]) -> Path:
    """The same, in a repository."""
    git("init", "-q")
    git("add", "train.py")
    git("commit", "-qm", "before")
    return script
