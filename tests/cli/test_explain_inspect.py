"""``scaffold explain`` and ``scaffold inspect``."""

from __future__ import annotations

import json
from pathlib import Path

from scaffold.rules import all_rules
from tests.cli.conftest import Scaffold


def test_explain_by_number_and_name(scaffold: Scaffold) -> None:
    by_number, by_name = scaffold("explain", "sc203"), scaffold("explain", "set-epoch")
    assert by_number.code == 0 and by_number.out == by_name.out
    assert by_number.out.startswith("SC203 set-epoch (without it: wrong result)") and "set_epoch" in by_number.out


def test_explain_lists_every_rule(scaffold: Scaffold) -> None:
    listed = scaffold("explain").out
    assert all(rule.id in listed and rule.name in listed for rule in all_rules())
    data = json.loads(scaffold("explain", "--json").out)
    assert [entry["id"] for entry in data] == [rule.id for rule in all_rules()]


def test_explain_names_the_nearest(scaffold: Scaffold) -> None:
    done = scaffold("explain", "set-epoc")
    assert done.code == 2 and done.err == "scaffold: set-epoc: no such rule; did you mean set-epoch?\n"
    assert "`scaffold explain` lists them" in scaffold("explain", "zzz").err


def test_inspect(scaffold: Scaffold, script: Path) -> None:
    done = scaffold("inspect", script)
    assert done.code == 0
    assert all(word in done.out for word in ("model", "optimizer", "loader", "train.py:8"))
    data = json.loads(scaffold("inspect", script, "--json").out)
    assert data["files"] == ["train.py"] and data["refused"] is None and data["roles"]


def test_inspect_says_what_would_be_refused(scaffold: Scaffold, here: Path) -> None:
    (here / "train.py").write_text("import torch.distributed\n")
    done = scaffold("inspect", "train.py")
    assert done.code == 0 and "`scaffold convert` leaves it alone" in done.out
