"""``scaffold launch``: files that start a script on several GPUs."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command(name="launch", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--target", default="auto", show_default=True, help="Where it is to run; auto looks at this machine; commas for several; list shows all.")
@click.option("--nodes", type=int, default=1, show_default=True, help="Machines.")
@click.option("--gpus-per-node", type=int, default=8, show_default=True, help="GPUs of each machine.")
@click.option("--gpu", default="H100", show_default=True, help="Kind of GPU, where the target asks for it.")
@click.option("--name", default="", help="Name of the job (default: the script's).")
@click.option("--time", "minutes", type=int, default=24 * 60, show_default=True, metavar="MINUTES", help="Time limit.")
@click.option("--max-restarts", type=click.IntRange(min=0), default=3, show_default=True, help="How often it may begin again.")
@click.option("--checkpoints", default="checkpoints", show_default=True, help="Folder that the script saves to.")
@click.option("--image", default="pytorch/pytorch:latest", show_default=True, help="Container image, where the target needs one.")
@click.option("--max-cost", default="", metavar="USD", help="Upper bound of what it may cost, where the target knows one.")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("launch"), show_default=True, help="Folder to write to.")
@click.option("--print", "to_stdout", is_flag=True, help="Print the files, write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print files, command and notes as JSON, write nothing.")
def command(
    script: Path,
    arguments: tuple[str, ...],
    target: str,
    nodes: int,
    gpus_per_node: int,
    gpu: str,
    name: str,
    minutes: int,
    max_restarts: int,
    checkpoints: str,
    image: str,
    max_cost: str,
    output: Path,
    to_stdout: bool,
    as_json: bool,
) -> None:
    """Write the files that start SCRIPT, with its ARGUMENTS (after --), for one or more targets.

    Example: scaffold launch train.py --target slurm --nodes 2 --gpus-per-node 8 -- --epochs 90
    """
    from scaffold.launch.write import job_for, launches, told, write

    if target == "list":
        from scaffold.launch.render import all_targets

        click.echo("\n".join(f"{found.name:12} {found.summary}" for found in all_targets().values()))
        return
    job = job_for(
        script, output, arguments=arguments, nodes=nodes, gpus_per_node=gpus_per_node, gpu=gpu, name=name, minutes=minutes,
        restarts=max_restarts, checkpoints=checkpoints, image=image, cost=max_cost,
    )  # fmt: skip
    found = launches(job, target, output)
    if as_json:
        click.echo(json.dumps([{"target": f.target, "files": f.files, "start": f.start, "notes": f.notes} for f in found], indent=2))
    elif to_stdout:
        click.echo("\n".join(text for f in found for text in f.files.values()), nl=False)
    else:
        write(found, output)
        click.echo(told(found, output))
