"""``scaffold verify``: run an original and its conversion, say whether they train the same."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import click


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("original", type=click.Path(path_type=Path))
@click.option(
    "--against", "converted", required=True, type=click.Path(path_type=Path), help="The converted script."
)
@click.option("--nproc", default=2, show_default=True, help="Processes of the converted run.")
@click.option("--steps", type=click.IntRange(min=1), help="End both runs after so many optimizer steps.")
@click.option("--timeout", default=60.0, show_default=True, help="Seconds beyond the original's time.")
@click.option("--converted-args", help="Command line of the converted script, where it differs.")
@click.option(
    "--match-batch",
    type=click.Choice(["share", "none"]),
    default="share",
    show_default=True,
    help="Whether each rank's training loaders take their share of the original's batch.",
)
@click.option("--resume-args", help="What both command lines need in addition to resume from a checkpoint.")
@click.option("--root", type=click.Path(path_type=Path), help="The folder the original is run in.")
@click.option(
    "--in-place-data",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A folder outside the project that the scripts may write to.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Also write the report as Markdown.")
@click.option("--html", type=click.Path(path_type=Path), help="Also write the report as HTML.")
@click.option(
    "--keep", type=click.Path(path_type=Path), help="Keep copies, output and records of the runs here."
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    original: Path,
    converted: Path,
    nproc: int,
    steps: int | None,
    timeout: float,
    converted_args: str | None,
    match_batch: str,
    resume_args: str | None,
    root: Path | None,
    in_place_data: tuple[Path, ...],
    as_json: bool,
    markdown: Path | None,
    html: Path | None,
    keep: Path | None,
    arguments: tuple[str, ...],
) -> None:
    """Run ORIGINAL in one process and its conversion in several, and compare what they do.

    ARGUMENTS after -- are the original's command line. Both scripts run in temporary copies of their project.
    The exit code is 0 where no check fails, 1 where one does, 2 for bad input.

    Example: scaffold verify train.py --against converted/train.py -- --epochs 2
    """
    from scaffold.verify import render
    from scaffold.verify.comparison import compare

    report = compare(
        original,
        converted,
        nproc=nproc,
        original_args=arguments,
        converted_args=None if converted_args is None else shlex.split(converted_args),
        steps=steps,
        timeout=timeout,
        match_batch=match_batch == "share",
        resume_args=None if resume_args is None else shlex.split(resume_args),
        root=root,
        writable=in_place_data,
        keep=keep,
        progress=lambda what: click.echo(what, err=True),
    )
    if markdown is not None:
        markdown.write_text(render.markdown(report), encoding="utf-8")
    if html is not None:
        html.write_text(render.html(report), encoding="utf-8")
    if as_json:
        click.echo(json.dumps(report.as_dict(), indent=2))
    else:
        click.echo(render.table(report, max(72, shutil.get_terminal_size().columns)))
    if not report.ok:
        raise SystemExit(1)
