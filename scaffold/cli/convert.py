"""``scaffold convert``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from scaffold.cli.common import quick_start, rule_ids
from scaffold.errors import Refused, ScaffoldError


@click.command(
    name="convert",
    epilog="Exit status: 0 converted, or nothing to do; 1 nothing written, because "
    "something could not be converted safely; 2 bad input; 3 refused: the script must be left alone.",
)
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--strategy",
    type=click.Choice(["ddp", "fsdp2", "auto"]),
    default="ddp",
    show_default=True,
    help="ddp: the whole model on each GPU. fsdp2: parameters, gradients and optimizer state divided among them. "
    "auto: ddp if it fits the GPUs, else fsdp2 (see `scaffold estimate`).",
)
@click.option("--gpu", metavar="NAME", help="auto: GPU to decide for, for instance H100 (default: this machine's); --report DIR: whose memory and price are shown.")
@click.option("--gpu-memory", metavar="SIZE", help="auto: memory of a GPU that scaffold does not know, for instance 24GiB.")
@click.option("--gpus", type=click.IntRange(min=1), default=8, show_default=True, help="auto, --launch, --report DIR: GPUs in all.")
@click.option("--nodes", type=click.IntRange(min=1), default=1, show_default=True, help="auto, --launch: machines they are in.")
@click.option("--params", metavar="N", help="auto: number of parameters, instead of counting them: 350M, 8B.")
@click.option("--input", "shape", metavar="SHAPE", help="auto: one GPU's batch, to simulate activations: 32x3x224x224, 16x128:int64.")
@click.option("--probe", is_flag=True, help="auto: read one batch of the script's own loader for its shape.")
@click.option("--no-exec", is_flag=True, help="auto: run none of the script's code; needs --params.")
@click.option(
    "--batch",
    type=click.Choice(["per-gpu", "global"]),
    default="per-gpu",
    show_default=True,
    help="Whether the script's batch size is that of each GPU or is divided among them.",
)
@click.option(
    "--scale-lr",
    type=click.Choice(["none", "linear", "sqrt"]),
    default="none",
    show_default=True,
    help="Scale the learning rate with the number of GPUs.",
)
@click.option(
    "--sync-batchnorm/--no-sync-batchnorm", default=False, help="Take BatchNorm's statistics over all GPUs."
)
@click.option(
    "--eval",
    "evaluation",
    type=click.Choice(["shard", "replicate"]),
    default="shard",
    show_default=True,
    help="Divide evaluation where the result stays exact, or run all of it on each GPU.",
)
@click.option(
    "--backend", metavar="NAME", help="Process group backend (default: NCCL on GPUs, Gloo on CPUs)."
)
@click.option(
    "--replicas", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
    help="fsdp2: divide N copies of the model, each among 1/N of the GPUs (one machine each).",
)
@click.option("--cpu-offload", is_flag=True, help="fsdp2: keep parameters and optimizer state in the host's memory.")
@click.option("--activation-checkpointing", is_flag=True, help="fsdp2: compute the blocks' activations again in backward, to keep fewer.")
@click.option("--partial", is_flag=True, help="Convert what can be, and mark the rest with TODO comments.")
@click.option(
    "--select",
    multiple=True,
    callback=rule_ids,
    metavar="SCxxx",
    help="Apply these rules only (SC2 for a family).",
)
@click.option("--ignore", multiple=True, callback=rule_ids, metavar="SCxxx", help="Do not apply these rules.")
@click.option("--launch", metavar="TARGETS", help="Also write the files that start it: torchrun,slurm,… (see `scaffold launch`).")
@click.option("--diff", is_flag=True, help="Print a patch for `git apply`; write nothing.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the whole converted project to DIR.",
)
@click.option("--allow-dirty", is_flag=True, help="Overwrite files that git could not bring back.")
@click.option(
    "--verify", is_flag=True, help="First run both scripts on 2 processes; write only if they train the same."
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="PLACE",
    help="Write a report: FILE.md with each hunk and its rule, or a folder with JSON, Markdown, HTML and figures.",
)
@click.option("--hours", metavar="H", help="For the report's cost: hours of the run on one machine.")
@click.option("--price", metavar="USD", help="For the report: dollars for a GPU-hour.")
@click.option("--efficiency", metavar="E,E", help="For the report: share of the perfect speed-up on more machines.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@click.option("-v", "--verbose", is_flag=True, help="Print every hunk with its rules.")
def command(as_json: bool, **given: Any) -> None:
    """Rewrite the training script SCRIPT, and the local modules it imports, for several GPUs.

    Files are changed in place if git could bring them back. ARGUMENTS (after --) are the
    script's own, for --verify.

    Example: scaffold convert train.py --diff
    """
    quick_start()
    from scaffold.cli.conversion import Request, run
    from scaffold.cli.reporting import Run

    about = Run(**{name: given.pop(name) for name in Run.__dataclass_fields__})
    request = Request(as_json=as_json, run=about, **given)
    if not as_json:
        sys.exit(run(request))
    try:
        sys.exit(run(request))
    except ScaffoldError as error:
        status = "refused" if isinstance(error, Refused) else "error"
        click.echo(
            json.dumps({"status": status, "script": str(request.script), "message": str(error)}, indent=2)
        )
        sys.exit(error.exit_code)
