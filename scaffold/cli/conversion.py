"""The steps of ``scaffold convert``: convert, check, prove, write, tell."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scaffold.cli.reporting import Reporting, Run
from scaffold.convert import Conversion, convert
from scaffold.errors import Refused, ScaffoldError
from scaffold.plan import Options
from scaffold.report import text
from scaffold.report.rule_docs import nearest
from scaffold.report.summary import Summary, summarise
from scaffold.rules import all_rules
from scaffold.source.mark import mark
from scaffold.source.patch import patch
from scaffold.source.project import Project
from scaffold.source.rewrite import Rewritten
from scaffold.source.write import check_clean, copy_project, write_all

if TYPE_CHECKING:
    from scaffold.strategy.asked import Asked
    from scaffold.verify import Report

_OWN_WORK = re.compile(r'"RANK" not in os\.environ:\s*raise SystemExit\("launch with: torchrun ')


@dataclass(frozen=True)
class Request:
    """The command line of ``scaffold convert``."""

    script: Path
    arguments: tuple[str, ...]
    strategy: str
    batch: str
    scale_lr: str
    sync_batchnorm: bool
    evaluation: str
    backend: str | None
    partial: bool
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    replicas: int
    cpu_offload: bool
    activation_checkpointing: bool
    gpu: str | None
    gpu_memory: str | None
    gpus: int
    nodes: int
    params: str | None
    shape: str | None
    probe: bool
    no_exec: bool
    launch: str | None
    diff: bool
    output: Path | None
    allow_dirty: bool
    verify: bool
    report: Path | None
    as_json: bool
    quiet: bool
    verbose: bool
    run: Run = Run()

    def options(self) -> Options:
        """The choices that decide what is rewritten."""
        _check_rules((*self.select, *self.ignore))
        return Options(
            "ddp" if self.strategy == "auto" else self.strategy, self.batch, self.scale_lr, self.sync_batchnorm, self.evaluation, self.backend,
            self.partial, self.select, self.ignore, self.replicas, self.cpu_offload, self.activation_checkpointing,
        )  # fmt: skip

    def hardware(self) -> Asked:
        """What memory is estimated for."""
        from scaffold.strategy.asked import Asked

        return Asked(
            self.script, self.arguments, self.params, self.gpu, self.gpu_memory, self.gpus, self.nodes,
            shape=self.shape, probe=self.probe, no_exec=self.no_exec,
        )  # fmt: skip


def run(request: Request) -> int:
    """Carry out a request; return the exit status."""
    _check_places(request)
    reporting = Reporting(request.report, request.run, request.hardware)
    try:
        conversion = convert(request.script, request.options())
    except Refused:
        if not _own_work(request.script):
            raise
        return _nothing(request, "is converted already: nothing to change")
    decision: tuple[str, ...] = ()
    if request.strategy == "auto":
        request, conversion, decision = _decided(request, conversion)
    target = request.output / conversion.plan.facts.project.entry.name if request.output else request.script
    if conversion.errors and not request.partial:
        return _blocked(request, summarise(conversion, request.script, target))
    conversion = _marked(conversion)
    if not conversion.changed:
        return _nothing(request, "needs no change under the chosen rules")
    found = replace(summarise(conversion, request.script, target, request.arguments), decision=decision)
    if not (request.diff or request.output or request.allow_dirty):
        check_clean([f.source.path for f in conversion.changed])
    proof = _prove(request, conversion) if request.verify else None
    if proof is not None and not proof.ok:
        headline = f"{request.script}: not converted, the result does not train the same"
        _tell(request, found, _Outcome("fails verification", headline, (), proof))
        return 1
    launched = _launch_files(request, target) if request.launch else ""
    headline = _write(request, conversion)
    reporting.write(found, conversion.plan)
    _tell(request, found, _Outcome("converted", headline, tuple(conversion.changed), proof))
    if launched and not request.as_json:
        click.echo(f"\n{launched}", err=request.diff)
    return 0


def _decided(request: Request, conversion: Conversion) -> tuple[Request, Conversion, tuple[str, ...]]:
    """Choose the strategy from memory, and convert by it; raises ``ScaffoldError`` where neither strategy fits the GPUs."""
    from scaffold.strategy import show
    from scaffold.strategy.asked import decide

    choice, about = decide(request.hardware(), conversion.plan)
    lines = (*about, *show.decision(choice))
    if choice.strategy == "none":
        raise ScaffoldError("\n".join([f"{request.script}: not converted", *lines]))
    request = replace(request, strategy=choice.strategy, activation_checkpointing=request.activation_checkpointing or choice.checkpointing)
    return request, convert(request.script, request.options()) if choice.strategy != "ddp" else conversion, lines


def _launch_files(request: Request, target: Path) -> str:
    """Write the launch files of the converted script; what they are and how to start them."""
    from scaffold.launch.write import job_for, launches, told, write

    folder = Path("launch")
    script = target if target.exists() else request.script
    job = job_for(
        script, folder, arguments=request.arguments, nodes=request.nodes, gpus_per_node=request.gpus // request.nodes, gpu=request.gpu or "H100"
    )
    job = replace(job, script=os.path.relpath(target))
    found = launches(job, request.launch or "", folder)
    if not request.diff:
        write(found, folder)
    return told(found, folder)


def _check_rules(ids: tuple[str, ...]) -> None:
    known = [rule.id for rule in all_rules()]
    for given in ids:
        if not any(rule.startswith(given) for rule in known):
            near = nearest(given)
            hint = f"; did you mean {near}?" if near else ""
            raise ScaffoldError(f"{given}: no such rule{hint} (`scaffold explain` lists them)")


def _check_places(request: Request) -> None:
    if request.diff and request.output:
        raise ScaffoldError("--diff writes nothing, so it does not go with -o; choose one")
    if request.output and request.output.exists():
        if not request.output.is_dir():
            raise ScaffoldError(f"{request.output}: is a file; give -o a folder")
        if any(request.output.iterdir()) and not request.allow_dirty:
            raise ScaffoldError(
                f"{request.output}: is not empty; choose a new folder, or overwrite with --allow-dirty"
            )
    if request.report and request.report.suffix == ".py":
        raise ScaffoldError(f"{request.report}: is a Python file; give --report a Markdown file or a folder")


def _own_work(script: Path) -> bool:
    return any(_OWN_WORK.search(source.text) for source in Project(script).sources)


def _marked(conversion: Conversion) -> Conversion:
    """The conversion with a comment above each place that is left to the user."""
    files = []
    for file in conversion.files:
        notes = [
            (d.rule, d.line, f"{d.why}; {d.do}") for d in conversion.errors if d.path == file.source.name
        ]
        files.append(mark(file, notes) if notes else file)
    return replace(conversion, files=tuple(files))


def _write(request: Request, conversion: Conversion) -> str:
    """Write the result where it was asked for; say so."""
    files, root = conversion.changed, conversion.plan.facts.project.root
    changed = f"{len(files)} file{'s' * (len(files) != 1)}"
    strategy = request.strategy.upper()
    if request.diff:
        return f"{request.script}: patch of {changed} for {strategy}"
    if request.output:
        large = copy_project(root, request.output)
        write_all(_contents(conversion, request.output))
        left = f" (left out as too large: {', '.join(p.name for p in large)})" if large else ""
        return f"{request.script}: {changed} converted for {strategy}, in {request.output}{left}"
    write_all({f.source.path: f.encoded() for f in files})
    return f"{request.script}: {changed} converted for {strategy}, in place"


def _contents(conversion: Conversion, folder: Path) -> dict[Path, bytes]:
    return {folder / f.source.name: f.encoded() for f in conversion.changed}


def _prove(request: Request, conversion: Conversion) -> Report:
    """Run the original and the conversion side by side, as from here, in temporary folders."""
    from scaffold.verify.comparison import compare

    project = conversion.plan.facts.project
    here = Path.cwd()
    start = here if project.root.is_relative_to(here) and here != Path.home() else project.root
    with tempfile.TemporaryDirectory(prefix="scaffold-convert-") as folder:
        copy = Path(folder) / project.root.relative_to(start)
        entry = next(f for f in conversion.files if f.source is project.entry)
        write_all({copy / entry.source.name: entry.encoded(), **_contents(conversion, copy)})
        report = compare(
            request.script,
            copy / entry.source.name,
            original_args=request.arguments,
            match_batch=request.batch == "per-gpu",
            root=start,
            progress=str if request.as_json or request.quiet else lambda what: click.echo(what, err=True),
        )
    return replace(report, converted="its conversion")


def _blocked(request: Request, found: Summary) -> int:
    count = len(found.errors)
    headline = (
        f"{request.script}: not converted; {count} place{'s' * (count != 1)} could train wrong "
        "(--partial converts the rest)"
    )
    if request.as_json:
        _tell(request, found, _Outcome("blocked", headline))
    else:
        shown = found.errors if request.quiet else found.diagnostics
        click.echo(f"{text.diagnostics(shown)}\n{headline}", err=True)
    return 1


def _nothing(request: Request, message: str) -> int:
    if request.as_json:
        data = {
            "status": "unchanged",
            "script": str(request.script),
            "message": message,
            "files": [],
            "diff": "",
        }
        click.echo(json.dumps(data, indent=2))
    elif not request.quiet:
        click.echo(f"{request.script}: {message}", err=request.diff)
    return 0


@dataclass(frozen=True)
class _Outcome:
    status: str
    headline: str
    files: tuple[Rewritten, ...] = ()
    proof: Report | None = None


def _tell(request: Request, found: Summary, outcome: _Outcome) -> None:
    diff = patch((f, f.source.name) for f in outcome.files)
    if request.as_json:
        written = [] if request.diff else [f.source.name for f in outcome.files]
        data = {"status": outcome.status, "message": outcome.headline, **found.as_dict(), "written": written}
        data |= {"diff": diff.decode("utf-8", errors="replace"), "options": asdict(request.options())}
        click.echo(
            json.dumps(data | ({"verify": outcome.proof.as_dict()} if outcome.proof else {}), indent=2)
        )
        return
    if request.diff:
        click.echo(diff, nl=False)
    if request.quiet:
        if found.errors:
            click.echo(text.diagnostics(found.errors), err=True)
        return
    if request.verbose:
        click.echo(text.hunks(found) + "\n", err=request.diff)
    click.echo(text.summary(found, outcome.headline), err=request.diff)
    if outcome.proof is not None:
        from scaffold.verify.render import table

        width = max(72, shutil.get_terminal_size().columns)
        click.echo("\n" + table(outcome.proof, width), err=request.diff)
