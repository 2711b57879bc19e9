"""``scaffold explain``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from scaffold.check.checks import Check


@click.command(name="explain")
@click.argument("rule", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(rule: str | None, as_json: bool) -> None:
    """Explain the rule RULE (its number or name): what goes wrong without it, before and after.

    Without RULE: list all rules.

    Example: scaffold explain SC203
    """
    from scaffold.report.rule_docs import SEVERITIES, find_rule, plain
    from scaffold.report.table import table
    from scaffold.rules import all_rules

    check = _check(rule) if rule else None
    if check is not None:
        shown = {"id": check.id, "name": check.name, "doc": check.doc.strip()}
        click.echo(json.dumps(shown, indent=2) if as_json else f"{check.id} {check.name} (found by `scaffold check`)\n\n{check.doc.strip().replace('``', '`')}")
        return
    found = [find_rule(rule)] if rule else list(all_rules())
    if as_json:
        data = [
            {"id": r.id, "name": r.name, "without": SEVERITIES[r.severity], "doc": r.doc.strip()}
            for r in found
        ]
        click.echo(json.dumps(data[0] if rule else data, indent=2))
    elif rule:
        click.echo(plain(found[0]))
    else:
        rows = [(r.id, r.name, SEVERITIES[r.severity], r.summary.replace("``", "`")) for r in found]
        click.echo(table([("rule", "name", "without it", "what it does"), *rows]))


def _check(name: str) -> Check | None:
    """The check of this number or name that no rule of a conversion shares."""
    from scaffold.check.checks import all_checks
    from scaffold.rules import all_rules

    known = {text for r in all_rules() for text in (r.id, r.name)}
    return next((c for c in all_checks() if c.id not in known and (name.upper() == c.id or name.lower() == c.name)), None)
