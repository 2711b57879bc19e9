"""``scaffold measure``: throughput and scaling efficiency of a converted script."""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path

import click

from scaffold.errors import ScaffoldError


@click.command(name="measure", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--nproc", default="1,2", show_default=True, metavar="N,N", help="Numbers of processes to run.")
@click.option("--steps", type=click.IntRange(min=10), default=50, show_default=True, help="Optimizer steps that are timed.")
@click.option("--warmup", type=click.IntRange(min=1), default=10, show_default=True, help="Steps before them that are not.")
@click.option("--bandwidth", metavar="GBIT", help="Gbit/s between machines, for the model where one size only is measured.")
@click.option("--timeout", default=600.0, show_default=True, help="Seconds for one size.")
@click.option("--root", type=click.Path(path_type=Path), help="The folder the script is run in.")
@click.option("--json", "as_json", is_flag=True, help="Print the measurement as JSON, for `scaffold cost --measured`.")
def command(
    script: Path,
    arguments: tuple[str, ...],
    nproc: str,
    steps: int,
    warmup: int,
    bandwidth: str | None,
    timeout: float,
    root: Path | None,
    as_json: bool,
) -> None:
    """Run the converted SCRIPT on several numbers of processes, and tell how well it scales.

    It runs in temporary copies of its project, as torchrun would start it; without a GPU on the CPU. ARGUMENTS
    (after --) are the script's own.

    Example: scaffold measure converted/train.py --nproc 1,2,4 --steps 50 --json > measured.json
    """
    from scaffold.cost.timed import Wanted, measure
    from scaffold.report import measured

    sizes = tuple(sorted({_size(part) for part in nproc.split(",")}))
    wanted = Wanted(script, arguments, sizes, steps, warmup, timeout, root)
    link = measured.link(bandwidth)
    runs = measure(wanted, _progress)
    if sys.stderr.isatty():
        click.echo("\r\033[K", nl=False, err=True)
    data = measured.data(wanted, runs, link, date.today())
    click.echo(json.dumps(data, indent=2) if as_json else measured.text(data))


def _size(text: str) -> int:
    if not text.strip().isdigit() or not 1 <= int(text) <= 64:
        raise ScaffoldError(f"--nproc {text}: give numbers of processes of this machine, as in 1,2,4")
    return int(text)


def _progress(nproc: int, done: int, total: int) -> None:
    line = f"{nproc} process{'es' * (nproc != 1)}: {done} of {total} steps"
    if sys.stderr.isatty():
        click.echo(f"\r\033[K{line}", nl=False, err=True)
    elif done == 0:
        click.echo(f"{line}", err=True)
