"""``scaffold cost``: time, GPU-hours and money of a run on one or more machines."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from pathlib import Path

import click

from scaffold.errors import ScaffoldError

NONE_QUALIFIES = 3


def _decimals(text: str, option: str) -> list[Decimal]:
    try:
        return [Decimal(part.strip()) for part in text.split(",")]
    except InvalidOperation:
        raise ScaffoldError(f"{option} {text}: numbers with commas are needed, for instance 0.9,0.75") from None


@click.command(name="cost", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--hours", required=True, help="Time of the run on the first set-up, in hours.")
@click.option("--gpus", type=int, default=8, show_default=True, help="GPUs of each machine.")
@click.option("--gpu", default="H100", show_default=True, help="Kind of GPU, to look its price up.")
@click.option("--price", help="US dollars for one GPU and hour.")
@click.option("--prices", type=click.Path(path_type=Path), metavar="FILE", help="Prices to look up: TOML, or a CSV of SkyPilot or gpuhunt.")
@click.option("--spot", is_flag=True, help="Take spot prices.")
@click.option("--nodes", default="1", show_default=True, metavar="N,…", help="Numbers of machines; the first is the one that --hours is of.")
@click.option("--efficiency", default="0.9,0.75", show_default=True, metavar="E,…", help="Shares of perfect speed-up on more machines.")
@click.option("--measured", type=click.Path(path_type=Path), metavar="FILE.json", help="Efficiencies from `scaffold measure --json`, instead.")
@click.option("--max-cost", help="US dollars that it may cost: exit status 3 if no set-up qualifies.")
@click.option("--deadline", help="Hours in which it must end: exit status 3 if no set-up qualifies.")
@click.option("--failures", help="Failures of one machine a day, to count lost work in: 0.01.")
@click.option("--save", default="30", show_default=True, metavar="SECONDS", help="Time to save a checkpoint.")
@click.option("--restart", default="10", show_default=True, metavar="MINUTES", help="Time to restart after a failure.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Also write a page with the table and a picture.")
@click.option("--markdown", type=click.Path(path_type=Path), metavar="FILE", help="Also write the table as Markdown.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, money as text.")
def command(
    hours: str,
    gpus: int,
    gpu: str,
    price: str | None,
    prices: Path | None,
    spot: bool,
    nodes: str,
    efficiency: str,
    measured: Path | None,
    max_cost: str | None,
    deadline: str | None,
    failures: str | None,
    save: str,
    restart: str,
    html: Path | None,
    markdown: Path | None,
    as_json: bool,
) -> None:
    """Show wall-clock time, GPU-hours and cost of a run on one machine and on more, and what the time saved costs.

    Example: scaffold cost --hours 10 --gpus 8 --gpu H100 --price 2.60 --nodes 1,2 --efficiency 0.9,0.75
    """
    from scaffold.cost import report
    from scaffold.cost.failures import failures as lost
    from scaffold.cost.prices import price_for
    from scaffold.cost.setups import setups
    from scaffold.source.write import write_all

    counts = [int(n) for n in _decimals(nodes, "--nodes")]
    shares = report.measured_efficiencies(measured) if measured else _decimals(efficiency, "--efficiency")
    found = price_for(gpu, price, prices, spot)
    (time,) = _decimals(hours, "--hours")[:1]
    rows = setups(time, gpus, found.usd, counts, shares)
    loss = None
    if failures is not None:
        loss = [
            lost(row.hours, row.nodes, _decimals(failures, "--failures")[0], _decimals(save, "--save")[0] / 3600, _decimals(restart, "--restart")[0] / 60)
            for row in rows
        ]
    limits = tuple(_decimals(text, name)[0] if text else None for text, name in ((max_cost, "--max-cost"), (deadline, "--deadline")))
    data = report.collect(rows, found, loss, limits[0], limits[1], measured)
    files = {path: text.encode() for path, text in ((html, report.html(data) if html else ""), (markdown, report.markdown(data) if markdown else "")) if path}
    write_all(files)
    click.echo(json.dumps(data, indent=2) if as_json else report.text(data))
    if any(limits) and not any(row["qualifies"] for row in data["rows"]):
        raise SystemExit(NONE_QUALIFIES)
