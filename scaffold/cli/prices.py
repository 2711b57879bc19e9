"""``scaffold prices``: the prices that are known, and importing others."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import date
from pathlib import Path

import click


@click.group(name="prices", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Prices per GPU and hour: list the known ones, or import a catalogue.

    Example: scaffold prices list
    """


@command.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON, money as text.")
def list_prices(as_json: bool) -> None:
    """List the user's own and the embedded prices, with date and source.

    Example: scaffold prices list --json
    """
    from scaffold.cost.prices import embedded, imported_by_user
    from scaffold.report.table import table

    rows = [*imported_by_user(), *embedded()]
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=2, default=str))
        return
    today = date.today()
    head = ("GPU", "USD per GPU-hour", "provider", "", "")
    click.echo(table([head, *((r.gpu, f"{r.usd:.2f}", r.provider, "spot" if r.spot else "", f"{r.age(today)}  {r.source}") for r in rows)]))


@command.command(name="import")
@click.argument("file", type=click.Path(path_type=Path))
def import_prices(file: Path) -> None:
    """Import a SkyPilot catalogue or a gpuhunt export (CSV) as this user's prices.

    Example: scaffold prices import catalogue.csv
    """
    from scaffold.cost.prices import imported, user_file, written
    from scaffold.errors import ScaffoldError
    from scaffold.source.write import write_all

    if not file.is_file():
        raise ScaffoldError(f"{file}: no such file")
    rows = imported(file)
    target = user_file()
    target.parent.mkdir(parents=True, exist_ok=True)
    write_all({target: written(rows).encode()})
    click.echo(f"{len(rows)} prices in {target}")
