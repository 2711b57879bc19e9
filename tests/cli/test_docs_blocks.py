"""Blocks of the docs that are marked to run do run; the others at least parse."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from scaffold.cli import COMMANDS, main

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```([\w ]+)\n(.*?)^```", re.M | re.S)
BLOCKS = [(path, kind.strip(), text) for path in sorted(DOCS.glob("*.md")) for kind, text in BLOCK.findall(path.read_text())]
RUN = [(path.name, line) for path, kind, text in BLOCKS if kind == "bash run" for line in text.splitlines() if line]


@pytest.mark.parametrize(("name", "line"), RUN, ids=[f"{n}-{i}" for i, (n, _) in enumerate(RUN)])
def test_it_runs(name: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    program, *args = shlex.split(line)
    assert program == "scaffold"
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output
    assert result.stdout.strip()


@pytest.mark.parametrize(("path", "kind", "text"), BLOCKS, ids=[f"{p.stem}-{i}" for i, (p, _, _) in enumerate(BLOCKS)])
def test_it_parses(path: Path, kind: str, text: str) -> None:
    if kind == "toml":
        tomllib.loads(text)
    elif kind == "yaml":
        yaml.safe_load(text)
    elif kind.startswith("bash"):
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
        for line in text.splitlines():
            if line.startswith("scaffold "):
                assert line.split()[1] in COMMANDS


def test_the_site_shows_every_page() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    shown = {page for entry in site["nav"] for page in entry.values()}
    assert {os.path.relpath(p, DOCS) for p in DOCS.glob("*.md")} <= shown
    assert all((DOCS / page).is_file() for page in shown)
