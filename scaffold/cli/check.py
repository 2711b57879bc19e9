"""``scaffold check``."""

from __future__ import annotations

from pathlib import Path

import click

from scaffold.cli.common import quick_start, rule_ids


@click.command(name="check", epilog="Exit status: 0 nothing but notes; 1 errors or warnings; 2 bad input.")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["text", "json", "github", "sarif", "markdown"]), default="text", show_default=True, help="How findings are printed.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write them to FILE instead.")
@click.option("--select", multiple=True, callback=rule_ids, metavar="SCxxx", help="Report these rules only (SC2 for a family).")
@click.option("--ignore", multiple=True, callback=rule_ids, metavar="SCxxx", help="Do not report these rules.")
@click.option("--fix", is_flag=True, help="Mend the faults that have a safe fix.")
@click.option("--diff", is_flag=True, help="Show what --fix would change; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def command(paths: tuple[Path, ...], form: str, output: Path | None, select: tuple[str, ...], ignore: tuple[str, ...], fix: bool, diff: bool, as_json: bool, quiet: bool) -> None:
    """Find faults in distributed training code at PATHS (files or folders; default: here), without running it.

    In scripts for one GPU: what their conversion would face. `# noqa: SC203` silences a line; [tool.scaffold] in
    pyproject.toml takes select, ignore, exclude and per-file-ignores.

    Example: scaffold check . --format github
    """
    quick_start()
    from scaffold.check.config import configured
    from scaffold.check.fix import fixed, patch
    from scaffold.check.output import FORMATS, fails
    from scaffold.check.run import check
    from scaffold.source.write import write_atomic

    wanted = list(paths) or [Path()]
    config = configured(wanted[0], select, ignore)

    def progress(what: str) -> None:
        if not quiet:
            click.echo(what, err=True)

    result = check(wanted, config, progress)
    if fix or diff:
        texts = fixed(result.findings)
        if diff:
            click.echo(patch(texts), nl=False)
        else:
            for path, text in texts.items():
                write_atomic(path, text.encode())
            progress(f"mended {len(texts)} file{'s' if len(texts) != 1 else ''}")
            result = check(wanted, config) if texts else result
    told = FORMATS["json" if as_json else form](result)
    if output is not None:
        write_atomic(output, f"{told}\n".encode())
    elif told and not diff:
        click.echo(told)
    if fails(result.findings):
        raise SystemExit(1)
