"""``scaffold new``: a training repository to begin with."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from scaffold.errors import ScaffoldError

QUESTIONS = {
    "strategy": ["ddp", "fsdp2"],
    "data": ["synthetic", "images", "tokens"],
    "precision": ["fp32", "bf16"],
    "tracking": ["none", "tensorboard", "wandb"],
    "licence": ["none", "MIT", "Apache-2.0"],
}


def _options(function: click.decorators.FC) -> click.decorators.FC:
    for name, choices in reversed(QUESTIONS.items()):
        function = click.option(f"--{name}", type=click.Choice(choices), help="Answer to the question of this name.")(function)
    return function


@click.command(name="new", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", type=click.Path(path_type=Path))
@_options
@click.option("--launch", default="torchrun,slurm", show_default=True, metavar="TARGETS", help="Launch files to write, as `scaffold launch` does; none for none.")
@click.option("--template", metavar="PATH|URL", help="Another template; a git one can be updated with `copier update`.")
@click.option("--defaults", is_flag=True, help="Ask nothing: take the defaults.")
def command(folder: Path, launch: str, template: str | None, defaults: bool, **given: str | None) -> None:
    """Make FOLDER a training repository: model, data, loop, checkpoints that survive failures, tests, launch files.

    What is not answered by an option is asked, or takes its default.

    Example: scaffold new my-project --strategy fsdp2 --data tokens --defaults
    """
    from scaffold.new import generate

    answers = {name: value for name, value in given.items() if value is not None}
    if not (defaults or len(answers) == len(QUESTIONS) or sys.stdin.isatty()):
        raise ScaffoldError("the questions cannot be asked here: answer them by options, or add --defaults")
    click.echo(generate(folder, answers, [] if launch == "none" else launch.split(","), template, defaults or not sys.stdin.isatty()))
