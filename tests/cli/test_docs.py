"""What is written about the project agrees with it."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from scaffold.cli import COMMANDS, main
from scaffold.report.rule_docs import pages
from scaffold.rules import all_rules

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_the_rules_pages_are_those_of_their_docstrings() -> None:
    written = {path.name: path.read_text() for path in (ROOT / "docs" / "rules").glob("*.md")}
    assert written == pages(), "write them with: python -m scaffold.report.rule_docs docs/rules"


def test_every_rule_says_before_and_after() -> None:
    for rule in all_rules():
        assert re.fullmatch(r"SC\d{3}", rule.id) and rule.severity in "WHCS"
        assert rule.summary.endswith((".", ":")), rule.id


@pytest.mark.parametrize("name", COMMANDS)
def test_the_readme_names_every_option(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None and f"`scaffold {name}" in README
    options = [o for p in command.params if isinstance(p, click.Option) for o in p.opts if o.startswith("--")]
    assert [o for o in options if not re.search(rf"`[^`]*{o}\b", README)] == []


def test_links_in_the_readme_lead_somewhere() -> None:
    for target, anchor in re.findall(r"\]\(([\w./-]+)(?:#([\w-]+))?\)", README):
        text = (ROOT / target).read_text()
        anchors = {re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in re.findall(r"^#+ (.*)$", text, re.M)}
        assert not anchor or anchor in anchors, f"{target}#{anchor}"
