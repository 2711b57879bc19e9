"""``scaffold explain``."""

from __future__ import annotations

import json

import click


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
