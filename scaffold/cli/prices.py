"""``scaffold prices``: show the prices of GPU-hours, or take in a catalogue."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path

import click

from scaffold.errors import ScaffoldError

_HELP = {"help_option_names": ["-h", "--help"]}


@click.group(name="prices", context_settings=_HELP)
def command() -> None:
    """Prices of GPU-hours: dated rows with their provider and source.

    Those that count, first to last: `--price`, `--prices FILE`, `[tool.scaffold]` in pyproject.toml, the user's
    settings (`~/.config/scaffold/config.toml`, then what `import` took in), scaffold's own table.

    Example: scaffold prices list --gpu H100
    """


@command.command(name="list", context_settings=_HELP)
@click.option("--gpu", metavar="NAME", help="Only this GPU's.")
@click.option("--prices", "file", type=click.Path(path_type=Path), metavar="FILE", help="Also those of a CSV file.")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def show(gpu: str | None, file: Path | None, as_json: bool) -> None:
    """Show all prices, and which are older than 60 days.

    Example: scaffold prices list --gpu H100
    """
    from scaffold.cost.layers import layers
    from scaffold.report.prices import as_dicts, text

    today = date.today()
    found = layers(file)
    if gpu is not None:
        from scaffold.cost.prices import find

        find(gpu, found)
    click.echo(json.dumps(as_dicts(found, gpu, today), indent=2) if as_json else text(found, gpu, today))


@command.command(name="import", context_settings=_HELP)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--provider", metavar="NAME", help="Whose prices they are (default: by the file's name).")
@click.option("--date", "day", metavar="DAY", help="The day of the prices, as 2026-10-27 (default: the file's).")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write here instead of the user's prices.")
def take_in(file: Path, provider: str | None, day: str | None, output: Path | None) -> None:
    """Take in FILE, a CSV catalogue of SkyPilot or gpuhunt: the cheapest row of each GPU.

    Rows of the same provider are replaced, those of others stay.

    Example: scaffold prices import lambda.csv --provider Lambda --date 2026-10-27
    """
    from scaffold.cost.layers import user_folder
    from scaffold.cost.prices import read, write
    from scaffold.source.write import write_atomic

    try:
        checked = date.fromisoformat(day) if day else None
    except ValueError:
        raise ScaffoldError(f"--date {day}: write a day as {datetime.now():%Y-%m-%d}") from None
    rows = read(file, provider or "", checked)
    target = output or user_folder() / "prices.csv"
    sellers = {row.provider.lower() for row in rows}
    kept = [row for row in read(target) if row.provider.lower() not in sellers] if target.is_file() else []
    write_atomic(target, write(sorted([*kept, *rows], key=lambda r: (r.gpu, r.provider, r.price is None))).encode())
    click.echo(f"{file}: {len(rows)} prices of {', '.join(sorted({r.provider for r in rows}))} taken in, in {target}")
