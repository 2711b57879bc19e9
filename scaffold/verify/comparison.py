"""Runs an original and its conversion, and compares what they did."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from scaffold.errors import ScaffoldError
from scaffold.verify import project, union
from scaffold.verify.case import Case
from scaffold.verify.checks import all_checks, data, ending
from scaffold.verify.checks.training import gradient_differences
from scaffold.verify.launch import Outcome, run
from scaffold.verify.plan import Plan, TrainLoader
from scaffold.verify.result import Check, Curves, Report, Run
from scaffold.verify.trace import Trace, read


@dataclass(frozen=True)
class Settings:
    """How to compare. ``timeout`` in seconds: what the converted run may take beyond the original's time."""

    nproc: int = 2
    original_args: tuple[str, ...] = ()
    converted_args: tuple[str, ...] | None = None
    steps: int | None = None
    timeout: float = 120.0
    match_batch: bool = True
    root: Path | None = None
    writable: tuple[Path, ...] = ()


class _Runs:
    """The runs of one comparison, in one temporary folder."""

    def __init__(self, original: Path, converted: Path, settings: Settings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        self.original = project.locate(original, settings.root)
        self.converted = project.locate_converted(converted, self.original)
        self.cuda_on_cpu = not _gpus(settings.nproc)

    def _plan(self, name: str, converted: bool) -> Plan:
        source = self.converted if converted else self.original
        script = project.copy(self.original, source, self.folder / name / "project")
        return Plan(
            script=str(script.path),
            root=str(script.root),
            out=str(self.folder / name / "records"),
            converted=converted,
            world=self.settings.nproc,
            cuda_on_cpu=self.cuda_on_cpu,
            steps=self.settings.steps,
            writable=tuple(str(path.resolve()) for path in self.settings.writable),
        )

    def run_original(self, name: str = "original", replay: Path | None = None) -> tuple[Trace, Outcome]:
        plan = replace(self._plan(name, False), replay=str(replay) if replay else None)
        outcome = run(plan, self.settings.original_args, 5 * self.settings.timeout)
        return read(Path(plan.out), 0), outcome

    def run_converted(self, original: Trace, seconds: float) -> tuple[list[Trace], Outcome]:
        share = tuple(
            TrainLoader(order, loader.facts["samples"], loader.facts["batch"])
            for order, loader in original.train_loaders.items()
            if loader.facts["batch"]
        )
        matched = self.settings.match_batch and self.settings.converted_args is None
        plan = replace(self._plan("converted", True), share=share if matched else ())
        given = self.settings.converted_args
        arguments = self.settings.original_args if given is None else given
        outcome = run(plan, arguments, seconds + self.settings.timeout)
        return [read(Path(plan.out), rank) for rank in range(self.settings.nproc)], outcome

    def root(self, name: str) -> Path:
        """The copy of the project that a run used."""
        return self.folder / name / "project"


def _gpus(wanted: int) -> bool:
    import torch

    return torch.cuda.is_available() and torch.cuda.device_count() >= wanted


def compare(
    original: Path,
    converted: Path,
    *,
    nproc: int = 2,
    original_args: Sequence[str] = (),
    converted_args: Sequence[str] | None = None,
    steps: int | None = None,
    timeout: float = 120.0,
    match_batch: bool = True,
    root: Path | None = None,
    writable: Sequence[Path] = (),
    keep: Path | None = None,
) -> Report:
    """Run ``original`` in one process and ``converted`` in ``nproc``, and say whether they train the same.

    Both run in temporary copies of their project. ``converted_args`` (default: the original's) implies that
    the user matches the global batch; else each rank's training loaders take their share of the original's
    batch. ``steps`` ends both runs after so many optimizer steps; ``timeout`` is in seconds, for the converted
    run beyond the original's time. ``root`` is the folder the original runs in, ``writable`` are folders outside
    it that the scripts may write to, ``keep`` receives the records.

    Raises ``ScaffoldError`` for files that do not exist; never for what the scripts do.
    """
    if nproc < 2:
        raise ScaffoldError(f"--nproc {nproc}: at least two processes are needed to compare")
    own = None if converted_args is None else tuple(converted_args)
    settings = Settings(nproc, tuple(original_args), own, steps, timeout, match_batch, root, tuple(writable))
    with _workspace(keep) as folder:
        return _compare(_Runs(original, converted, settings, folder), original, converted)


@contextmanager
def _workspace(keep: Path | None) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="scaffold-verify-"))
    try:
        yield folder
        if keep is not None:
            shutil.copytree(folder, keep, symlinks=True, dirs_exist_ok=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _compare(runs: _Runs, original: Path, converted: Path) -> Report:
    settings = runs.settings
    single, outcome_single = runs.run_original()
    first = ending.original(single, outcome_single.codes[0], outcome_single.stopped)
    done = [_run("original", outcome_single, [single])]
    if first.verdict == "fails":
        return Report(
            str(original), str(converted), settings.nproc, (first,), _notes(runs, single, []), tuple(done)
        )
    ranks, outcome = runs.run_converted(single, outcome_single.seconds)
    done.append(_run("converted", outcome, ranks))
    reference, unmatched = single, union.matched(single, ranks)
    case = Case(single, outcome_single, ranks, outcome, reference, unmatched, runs.root("original"),
                runs.root("converted"), settings.steps)  # fmt: skip
    if unmatched:
        case, replayed = _replayed(runs, case)
        done += replayed
    checks = (first, *all_checks(case))
    return Report(str(original), str(converted), settings.nproc, checks, _notes(runs, single, ranks), tuple(done),
                  _curves(case))  # fmt: skip


def _replayed(runs: _Runs, case: Case) -> tuple[Case, list[Run]]:
    """The case with the original run again on the ranks' batches, where these are a fair share of the data."""
    if case.crashed or case.outcome.hang:
        return replace(case, unmatched="the converted run did not come to its end"), []
    faults = [check for check in data.samples(case) if check.verdict == "fails"]
    if faults:
        return replace(case, unmatched=f"{faults[0].id} fails, so the runs trained on different data"), []
    path = runs.folder / "replay.json"
    union.write_replay(case.original, case.ranks, path)
    trace, outcome = runs.run_original("replay", path)
    told = [_run("original on the ranks' batches", outcome, [trace])]
    if outcome.codes[0] != 0:
        return replace(case, unmatched=f"{case.unmatched}; the original fails on the ranks' batches"), told
    return replace(case, reference=trace, unmatched=union.matched(trace, case.ranks)), told


def _run(name: str, outcome: Outcome, traces: Sequence[Trace]) -> Run:
    peaks = tuple(int(trace.end.get("peak", 0)) for trace in traces)
    return Run(name, round(outcome.seconds, 2), len(traces[0].steps), len(traces), peaks)


def _curves(case: Case) -> Curves:
    ours = case.reference.losses
    theirs = [sum(values) / len(values) for values in zip(*(r.losses for r in case.ranks), strict=False)]
    return Curves(tuple(ours), tuple(theirs), tuple(gradient_differences(case.reference, case.ranks[0])))


NOTES = {
    "dropout": "dropout is drawn in training: it was off in all runs",
    "augmentation": "samples are transformed at random: the same sample was transformed alike in all runs",
    "BatchNorm": "BatchNorm takes its statistics per rank: here they were taken over all ranks",
}


def _notes(runs: _Runs, single: Trace, ranks: Sequence[Trace]) -> tuple[str, ...]:
    notes = []
    if runs.cuda_on_cpu:
        notes.append("fewer GPUs than processes: CUDA code ran on the CPU, with Gloo, in 32-bit precision")
    shares = [e for rank in ranks[:1] for e in rank.of("loader") if e["share"] is not None]
    notes += [
        f"each rank's training loader took {e['share']} of the original's {e['batch']} samples"
        for e in shares
    ]
    found = single.sources.union(*(rank.sources for rank in ranks))
    notes += [text for kind, text in NOTES.items() if kind in found]
    refused = {e["path"] for trace in (single, *ranks) for e in trace.of("refused")}
    notes += [f"writing to {path} was refused: it is outside the project" for path in sorted(refused)]
    return tuple(notes)


__all__ = ["Check", "Report", "compare"]
