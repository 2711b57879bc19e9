"""``scaffold cost``: what a run costs on one machine and on more."""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path
from typing import Any

import click

from scaffold.errors import ScaffoldError


@click.command(
    name="cost",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 done; 2 bad input; 3 no set-up keeps to --max-cost and --deadline.",
)
@click.option("--hours", required=True, metavar="H", help="Hours of the run on one machine; low,high or low,expected,high for a range.")
@click.option("--gpus", type=int, default=8, show_default=True, metavar="N", help="GPUs of one machine.")
@click.option("--gpu", metavar="NAME", help="GPU, for its price: H100, A100-80GB, L4.")
@click.option("--price", metavar="USD", help="Dollars for a GPU-hour; low,high or low,expected,high for a range.")
@click.option("--prices", type=click.Path(path_type=Path), metavar="FILE", help="CSV file of prices: scaffold's, SkyPilot's or gpuhunt's.")
@click.option("--provider", metavar="NAME", help="Count this provider's prices only.")
@click.option("--nodes", default="1,2", show_default=True, metavar="N,N", help="Numbers of machines to compare.")
@click.option("--efficiency", metavar="E,E", help="Share of the perfect speed-up on more machines; a line of the table for each.")
@click.option("--measured", type=click.Path(path_type=Path), metavar="FILE", help="Take the efficiency from what `scaffold measure --json` wrote.")
@click.option("--bandwidth", metavar="GBIT", help="Gbit/s between machines, for the model where --measured has no second machine.")
@click.option("--mtbf", metavar="TIME", help="Count failures: how long a machine runs between two (500h, 30d).")
@click.option("--checkpoint-every", metavar="TIME", help="Training between checkpoints (20min); default: the best interval.")
@click.option("--save", metavar="TIME", help="How long a checkpoint takes (default: 30s).")
@click.option("--restart", metavar="TIME", help="From a failure until training goes on (default: 10min).")
@click.option("--spot-mtbf", metavar="TIME", help="Compare spot: how long a spot machine lasts on average.")
@click.option("--spot-price", metavar="USD", help="Dollars for a GPU-hour of spot, instead of the table's.")
@click.option("--max-cost", metavar="USD", help="Which set-ups cost no more, at the high estimate.")
@click.option("--deadline", metavar="TIME", help="Which set-ups take no longer, at the high estimate (8h).")
@click.option("--memory", type=click.Path(path_type=Path), metavar="FILE", help="What `scaffold estimate --json` wrote, for --report.")
@click.option("--report", type=click.Path(path_type=Path), metavar="DIR", help="Write the report: JSON, Markdown, HTML and SVG figures.")
@click.option("--json", "as_json", is_flag=True, help="Print the study as JSON.")
def command(as_json: bool, memory: Path | None, report: Path | None, **given: Any) -> None:
    """Compare what a run costs, and how long it takes, on one machine and on more.

    Wall-clock is hours / (machines x efficiency); GPU-hours are wall-clock x GPUs; cost is GPU-hours x price.

    Example: scaffold cost --hours 10 --gpus 8 --gpu H100 --price 2.60 --nodes 1,2 --efficiency 0.9,0.75
    """
    from scaffold.cost.asked import Asked, study
    from scaffold.report.costs import text

    if memory is not None and report is None:
        raise ScaffoldError("--memory: is shown in the report; give --report DIR too")
    today = date.today()
    found = study(Asked(**given), today).as_dict(today)
    if report is not None:
        from scaffold.report import full

        known = full.read_memory(memory) if memory else None
        full.write(report, full.report(today, f"What {given['hours']} h on {given['gpus']} GPUs cost on more machines", cost=found, memory=known))
    click.echo(json.dumps(found, indent=2) if as_json else text(found))
    if not found["qualifies"]:
        sys.exit(3)
