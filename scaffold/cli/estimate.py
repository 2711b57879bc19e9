"""``scaffold estimate``: memory per GPU under each strategy, and which one fits."""

from __future__ import annotations

import json
from pathlib import Path

import click

from scaffold.errors import ScaffoldError


@click.command(name="estimate", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("script", required=False, type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--params", help="Number of parameters, instead of a script: 8B, 350M.")
@click.option("--gpu", metavar="NAME", help="GPU, for instance H100, A100-80GB, L4.")
@click.option("--gpu-memory", metavar="SIZE", help="Memory of a GPU that scaffold does not know: 24GiB.")
@click.option("--gpus", type=click.IntRange(min=1), default=8, show_default=True, help="GPUs in all.")
@click.option("--nodes", type=click.IntRange(min=1), default=1, show_default=True, help="Machines they are in.")
@click.option("--optimizer", metavar="NAME", help="Instead of the script's: adamw, sgd, adafactor, adamw8bit, …")
@click.option("--precision", metavar="NAME", help="Instead of the script's: mixed, fp32, autocast, bf16.")
@click.option("--input", "shape", metavar="SHAPE", help="One GPU's batch: 32x3x224x224, or 16x128:int64.")
@click.option("--probe", is_flag=True, help="Read one batch of the script's own loader for its shape.")
@click.option("--batch", type=click.IntRange(min=1), help="Rows of one GPU's batch, instead of those of --input or --probe.")
@click.option("--measured", type=click.Path(path_type=Path), metavar="FILE.json", help="A report of `scaffold verify --json`: its measured peak beside the estimate.")
@click.option("--no-exec", is_flag=True, help="Run none of the script's code; needs --params.")
@click.option("--json", "as_json", is_flag=True, help="Print the estimate as JSON, sizes in bytes.")
def command(
    script: Path | None,
    arguments: tuple[str, ...],
    params: str | None,
    gpu: str | None,
    gpu_memory: str | None,
    gpus: int,
    nodes: int,
    optimizer: str | None,
    precision: str | None,
    shape: str | None,
    probe: bool,
    batch: int | None,
    measured: Path | None,
    no_exec: bool,
    as_json: bool,
) -> None:
    """Estimate the memory of each GPU for SCRIPT (or --params), and decide between DDP and FSDP2.

    Only the code that builds the model is run, in a process of its own, without memory for its tensors. ARGUMENTS
    (after --) are the script's own. GB are 10^9 bytes, GiB 2^30.

    Example: scaffold estimate --params 8B --gpu H100 --gpus 8
    """
    from scaffold.strategy import show
    from scaffold.strategy.asked import Asked, decide

    if nodes > gpus or gpus % nodes:
        raise ScaffoldError(f"--gpus {gpus} --nodes {nodes}: as many GPUs on each machine are needed")
    asked = Asked(script, arguments, params, gpu, gpu_memory, gpus, nodes, optimizer, precision, shape, probe, batch, no_exec)
    choice, about = decide(asked)
    if measured is not None:
        about.append(_measured(measured))
    if as_json:
        click.echo(json.dumps(show.data(choice), indent=2))
    else:
        click.echo(show.text(choice, about))


def _measured(path: Path) -> str:
    from scaffold.strategy.sizes import show_bytes

    try:
        runs = json.loads(path.read_text(encoding="utf-8"))["runs"]
        peaks = {run["name"]: max(run["peak_bytes"]) for run in runs if run["peak_bytes"]}
    except (OSError, ValueError, KeyError, TypeError):
        raise ScaffoldError(f"--measured {path}: no report of `scaffold verify --json`") from None
    return "measured peak of a process: " + ", ".join(f"{name} {show_bytes(peak)}" for name, peak in peaks.items())
