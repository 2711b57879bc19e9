"""``scaffold review``."""

from __future__ import annotations

from pathlib import Path

import click

from scaffold.cli.common import quick_start


@click.command(name="review", epilog="Exit status: 0 every change is explained and nothing is missing; 1 something needs a human; 2 bad input.")
@click.argument("what", nargs=-1, required=True)
@click.option("--format", "form", type=click.Choice(["text", "markdown", "html", "json", "github", "sarif"]), default="text", show_default=True, help="How the review is printed.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write it to FILE instead.")
@click.option("--verify", "verified", type=click.Path(path_type=Path), metavar="FILE", help="Show the summary of a report that `scaffold verify --json` printed.")
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
def command(what: tuple[str, ...], form: str, output: Path | None, verified: Path | None, as_json: bool) -> None:
    """Review a conversion: WHAT is a range of commits (main..HEAD, main...HEAD), two files, or - for a patch on standard input.

    Each hunk is explained by the rule that makes it; what no rule explains is set apart, and so is what a conversion would
    have changed as well, and what `scaffold check` finds since.

    Example: scaffold review main...HEAD --format markdown -o comment.md
    """
    quick_start()
    import sys
    import tempfile

    from scaffold.errors import ScaffoldError
    from scaffold.review import sides
    from scaffold.review.render import FORMATS
    from scaffold.review.review import review
    from scaffold.source.write import write_atomic

    with tempfile.TemporaryDirectory(prefix="scaffold-review-") as folder:
        work = Path(folder).resolve()
        if what == ("-",):
            both = sides.of_patch(sys.stdin.buffer.read(), work)
        elif len(what) == 1 and ".." in what[0]:
            both = sides.of_commits(what[0], work)
        elif len(what) == 2:
            both = sides.of_files(Path(what[0]), Path(what[1]), work)
        else:
            raise ScaffoldError(f"{' '.join(what)}: name a range of commits (main..HEAD), two files, or - for a patch")
        done = review(both, verified)
        told = FORMATS["json" if as_json else form](done)
    if output is not None:
        write_atomic(output, f"{told}\n".encode())
    elif told:
        click.echo(told)
    if done.failed:
        raise SystemExit(1)
