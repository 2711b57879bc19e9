"""One Markdown page a rule, made from the rule's own docstring.

Write them with ``python -m scaffold.report.rule_docs docs/rules``.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from scaffold.errors import ScaffoldError
from scaffold.rules import Rule, all_rules

SEVERITIES = {"W": "wrong result", "H": "hang", "C": "crash", "S": "waste"}
FAMILIES = {
    "1": "Launch and process group",
    "2": "Data",
    "3": "Model and step",
    "4": "Devices",
    "5": "Evaluation, metrics, control flow",
    "6": "Side effects and checkpoints",
    "7": "FSDP2",
    "8": "Advice",
}
_INDENT = "    "
_ALIKE = 0.6


def pages() -> dict[str, str]:
    """The text of every page, by file name."""
    rules = all_rules()
    return {"index.md": _index(rules), **{f"{rule.id}.md": page(rule) for rule in rules}}


def find_rule(text: str) -> Rule:
    """The rule with this number or name.

    Raises:
        ScaffoldError: there is none; the message names the nearest.
    """
    rules = all_rules()
    for rule in rules:
        if text.upper() == rule.id or text.lower() == rule.name:
            return rule
    near = nearest(text)
    hint = f"did you mean {near}?" if near else "`scaffold explain` lists them"
    raise ScaffoldError(f"{text}: no such rule; {hint}")


def nearest(text: str) -> str:
    """The number or name of a rule that looks most like ``text``, '' if none does."""
    known = [name for rule in all_rules() for name in (rule.id, rule.name)]

    def likeness(name: str) -> tuple[float, int]:
        ratio = difflib.SequenceMatcher(None, text.lower(), name.lower()).ratio()
        return round(ratio, 2), len(os.path.commonprefix([text.lower(), name.lower()]))

    best = max(known, key=likeness)
    return best if likeness(best)[0] >= _ALIKE else ""


def page(rule: Rule) -> str:
    """The page of one rule."""
    title = f"# {rule.id} {rule.name}\n\nWithout it: {SEVERITIES[rule.severity]}.\n"
    return f"{title}\n{_markdown(rule.doc)}"


def plain(rule: Rule) -> str:
    """The same for a terminal."""
    text = "\n".join(
        line.removesuffix(":") if line.endswith("::") else line for line in rule.doc.strip().split("\n")
    )
    return f"{rule.id} {rule.name} (without it: {SEVERITIES[rule.severity]})\n\n{text.replace('``', '`')}"


def _index(rules: tuple[Rule, ...]) -> str:
    lines = ["# Rules", "", "`scaffold explain SC203` shows the same pages.", ""]
    family = ""
    for rule in rules:
        if rule.id[2] != family:
            family = rule.id[2]
            lines += [
                "",
                f"## {FAMILIES[family]}",
                "",
                "| rule | name | without it | what it does |",
                "|---|---|---|---|",
            ]
        what = rule.summary.replace("``", "`").replace("|", "\\|")
        lines.append(f"| [{rule.id}]({rule.id}.md) | {rule.name} | {SEVERITIES[rule.severity]} | {what} |")
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def _markdown(doc: str) -> str:
    """A docstring as Markdown: fenced code, single backquotes, links."""
    out: list[str] = []
    code: list[str] = []
    for line in [*doc.strip().split("\n"), "end"]:
        if code and line.strip() and not line.startswith(_INDENT):
            out += _fenced(code)
            code = []
        if code or line.endswith("::"):
            code.append(line)
        elif line != "end":
            out.append(
                re.sub(r"(?<![<(\[])(https?://[^\s,;)>]*[^\s,;.)>])", r"<\1>", line).replace("``", "`")
            )
    return "\n".join(out).strip() + "\n"


def _fenced(code: list[str]) -> Iterator[str]:
    head, *body = code
    while body and not body[-1].strip():
        body.pop()
    while body and not body[0].strip():
        body.pop(0)
    yield head.removesuffix(":").replace("``", "`")
    yield ""
    yield "```python"
    yield from (line.removeprefix(_INDENT) for line in body)
    yield "```"
    yield ""


def main(folder: Path) -> None:
    """Write the pages; remove those of rules that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for old in folder.glob("SC*.md"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
