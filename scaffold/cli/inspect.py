"""``scaffold inspect``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from scaffold.cli.common import quick_start


@click.command(name="inspect")
@click.argument("script", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(script: Path, as_json: bool) -> None:
    """Show what each thing in the training script SCRIPT is, found by following its values.

    Example: scaffold inspect train.py
    """
    quick_start()
    from scaffold.errors import Refused
    from scaffold.refuse import check
    from scaffold.report import roles
    from scaffold.roles.facts import Facts
    from scaffold.source.project import Project

    facts = Facts.of(Project(script))
    found = roles.roles(facts)
    refusal = None
    try:
        check(facts)
    except Refused as refused:
        refusal = str(refused)
    if as_json:
        files = [source.name for source in facts.project.sources]
        data = {"script": str(script), "files": files, "refused": refusal, "roles": roles.as_dict(found)}
        click.echo(json.dumps(data, indent=2))
        return
    click.echo(roles.as_text(found))
    if refusal:
        click.echo(f"\n`scaffold convert` leaves it alone: {refusal}")
