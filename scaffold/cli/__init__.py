"""The ``scaffold`` command. Each sub-command is a module here, imported only when it is called."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from scaffold import __version__
from scaffold.errors import ScaffoldError

COMMANDS = {
    "convert": "Rewrite a single-GPU training script for several GPUs.",
    "inspect": "Show what each thing in a training script is.",
    "explain": "Explain a rule, for instance SC203.",
    "estimate": "Estimate memory per GPU, and decide between DDP and FSDP2.",
    "new": "Make a training repository to begin with.",
    "launch": "Write the files that start a script: torchrun, Slurm, Kubernetes, and others.",
    "cost": "Show time, GPU-hours and money of a run on one or more machines.",
    "measure": "Measure how well a converted script scales.",
    "prices": "List the known prices, or import others.",
    "check": "Find faults in distributed training code, without running it.",
    "review": "Explain a conversion in a pull request, hunk by hunk.",
    "verify": "Prove that a conversion trains the same as the original.",
}


class LazyGroup(click.Group):
    """A group whose commands are modules of this package, each with a ``command`` in it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"scaffold.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ScaffoldError as error:
            click.echo(f"scaffold: {error}", err=True)
            sys.exit(error.exit_code)
        except RecursionError:
            click.echo("scaffold: the script is nested too deeply to be followed; split it up", err=True)
            sys.exit(ScaffoldError.exit_code)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            if "SCAFFOLD_TRACEBACK" in os.environ:
                raise
            what = f"{type(error).__name__}: {error}".splitlines()[0]
            click.echo(f"scaffold: a fault of scaffold's own, nothing was written ({what}); set SCAFFOLD_TRACEBACK=1 to report it", err=True)
            sys.exit(1)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="scaffold")
def main() -> None:
    """Turn a single-GPU PyTorch training script into a multi-GPU one that provably trains the same.

    Example: scaffold convert train.py --strategy ddp --diff
    """
