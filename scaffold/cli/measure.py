"""``scaffold measure``: scaling efficiency of a converted script."""

from __future__ import annotations

import json
from pathlib import Path

import click

from scaffold.errors import ScaffoldError


@click.command(name="measure", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--nproc", default="1,2", show_default=True, metavar="N,…", help="Numbers of processes; the first is the base.")
@click.option("--steps", type=click.IntRange(min=8), default=50, show_default=True, help="Optimizer steps of each run; a fifth is warm-up.")
@click.option("--timeout", default=600.0, show_default=True, help="Seconds for each run.")
@click.option("--link", type=float, metavar="GB/S", help="With one size only: bandwidth of the link between machines, for a model of two and more.")
@click.option("--gradients", metavar="SIZE", help="With --link: bytes of all gradients, for instance 500MB.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON, for `scaffold cost --measured`.")
def command(
    script: Path, arguments: tuple[str, ...], nproc: str, steps: int, timeout: float, link: float | None, gradients: str | None, as_json: bool
) -> None:
    """Run the converted SCRIPT on several numbers of processes, and show seconds a step and scaling efficiency.

    Without GPUs the processes share this machine's cores, so the figures are of the CPU. ARGUMENTS (after --) are the script's own.

    Example: scaffold measure converted/train.py --nproc 1,2,4 --steps 50
    """
    from scaffold.cost.measure import efficiency, measure, modelled
    from scaffold.report.table import table
    from scaffold.strategy.sizes import parse_bytes

    try:
        counts = [int(n) for n in nproc.split(",")]
    except ValueError:
        raise ScaffoldError(f"--nproc {nproc}: numbers with commas are needed, for instance 1,2,4") from None
    if min(counts) < 1:
        raise ScaffoldError(f"--nproc {nproc}: at least 1 process is needed")
    sizes = measure(script, arguments, counts, steps, timeout, lambda what: click.echo(what, err=True))
    rows = []
    for size in sizes:
        low, median, high = efficiency(sizes[0], size)
        rows.append({"processes": size.processes, "step_seconds": {"low": size.low, "median": size.median, "high": size.high},
                     "efficiency": {"low": round(low, 3), "median": round(median, 3), "high": round(high, 3)}, "kind": "measured"})  # fmt: skip
    if len(sizes) == 1 and link and gradients:
        for count in (2, 4, 8):
            low, high = modelled(sizes[0].median, parse_bytes(gradients), count, link)
            rows.append({"processes": count, "step_seconds": None, "efficiency": {"low": round(low, 3), "median": round((low + high) / 2, 3), "high": round(high, 3)}, "kind": "model"})
    if as_json:
        click.echo(json.dumps({"script": str(script), "sizes": rows}, indent=2))
        return
    head = ("processes", "seconds a step", "efficiency", "")
    lines = [
        (str(r["processes"]), f"{s['median']:.4f} ({s['low']:.4f} to {s['high']:.4f})" if (s := r["step_seconds"]) else "",  # type: ignore[index]
         f"{r['efficiency']['median']:.0%} ({r['efficiency']['low']:.0%} to {r['efficiency']['high']:.0%})", str(r["kind"]))  # type: ignore[index]
        for r in rows
    ]  # fmt: skip
    click.echo(table([head, *lines]))
