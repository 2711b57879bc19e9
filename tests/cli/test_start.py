"""The command starts at once: nothing heavy is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def imported(code: str, cwd: Path) -> set[str]:
    """The top-level modules that a new interpreter has after running ``code``."""
    tail = "\nprint('\\nmodules', *sorted({m.partition('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", f"import sys\n{code}{tail}"], cwd=cwd, capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("modules ")[2].split())


def call(*words: str) -> str:
    return f"from scaffold.cli import main\ntry: main({list(words)!r})\nexcept SystemExit as end: assert not end.code, end.code"


@pytest.mark.parametrize("words", [("--help",), ("--version",)], ids=lambda w: w[0])
def test_help_imports_nothing_heavy(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert not imported(call(*words), tmp_path) & {"torch", "libcst", "jinja2", "numpy"}


@pytest.mark.parametrize("command", ["convert", "inspect", "explain", "verify"])
def test_help_of_a_command(tmp_path: Path, command: str) -> None:
    assert not imported(call(command, "--help"), tmp_path) & {"torch", "libcst", "jinja2", "numpy"}


def test_converting_needs_no_torch(tmp_path: Path, training: str) -> None:
    (tmp_path / "train.py").write_text(training)
    found = imported(call("convert", "train.py", "--diff"), tmp_path)
    assert "libcst" in found and not found & {"torch", "numpy", "jinja2"}
