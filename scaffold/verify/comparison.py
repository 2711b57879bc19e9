"""Runs an original and its conversion, and compares what they did."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from scaffold.errors import ScaffoldError
from scaffold.verify import project, union
from scaffold.verify.case import Case
from scaffold.verify.checks import all_checks, data, ending
from scaffold.verify.checks.training import gradient_differences
from scaffold.verify.launch import Outcome, run
from scaffold.verify.plan import Plan, TrainLoader
from scaffold.verify.restart import Restart
from scaffold.verify.result import Curves, Report, Run
from scaffold.verify.trace import Trace, read


class Comparison:
    """An original, run once, against any number of conversions. A context manager: holds a temporary folder.

    The arguments are those of ``compare``.
    """

    def __init__(
        self,
        original: Path,
        *,
        nproc: int = 2,
        original_args: Sequence[str] = (),
        steps: int | None = None,
        timeout: float = 120.0,
        root: Path | None = None,
        writable: Sequence[Path] = (),
        progress: Callable[[str], object] = str,
    ) -> None:
        if nproc < 2:
            raise ScaffoldError(f"--nproc {nproc}: at least two processes are needed to compare")
        self.path, self.nproc, self.steps, self.timeout = original, nproc, steps, timeout
        self.original_args = tuple(original_args)
        self.writable = tuple(str(path.resolve()) for path in writable)
        self.original = project.locate(original, root)
        self.cuda_on_cpu = not _gpus(nproc)
        self.folder = Path()
        self._counts: dict[str, int] = {}
        self._progress = progress

    def __enter__(self) -> Comparison:
        self.folder = Path(tempfile.mkdtemp(prefix="scaffold-verify-"))
        return self

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def plan(self, name: str, script: project.Script, converted: bool, left: Path | None = None) -> Plan:
        """A run of a script in a new copy of the project, or of the folder ``left`` by another run."""
        number = self._counts[name] = self._counts.get(name, 0) + 1
        self._progress(f"running {script.path.name}: {name}, {self.nproc if converted else 1} process{'es' if converted else ''}")
        folder = self.folder / (name if number == 1 else f"{name}-{number}")
        target = folder / "project"
        copied = project.take_up(left, script, target) if left else project.copy(self.original, script, target)
        return Plan(
            script=str(copied.path),
            root=str(copied.root),
            out=str(folder / "records"),
            converted=converted,
            world=self.nproc,
            cuda_on_cpu=self.cuda_on_cpu,
            steps=self.steps,
            writable=self.writable,
        )

    def _run_original(
        self, name: str = "original", replay: Path | None = None
    ) -> tuple[Trace, Outcome, Path]:
        plan = replace(self.plan(name, self.original, False), replay=str(replay) if replay else None)
        outcome = run(plan, self.original_args, 5 * self.timeout)
        return read(Path(plan.out), 0), outcome, Path(plan.root)

    @cached_property
    def single(self) -> tuple[Trace, Outcome, Path]:
        """The original's own run, done when it is first asked for."""
        return self._run_original()

    def against(
        self,
        converted: Path,
        converted_args: Sequence[str] | None = None,
        match_batch: bool = True,
        resume_args: Sequence[str] | None = None,
        resumes: bool = True,
    ) -> Report:
        """Run a conversion and compare it. The arguments are those of ``compare``; without ``resumes`` no run is started again."""
        script = project.locate_converted(converted, self.original)
        single, outcome_single, root = self.single
        first = ending.original(single, outcome_single.codes[0], outcome_single.stopped)
        done = [_run("original", outcome_single, [single])]
        if first.verdict == "fails":
            notes = _notes(self.cuda_on_cpu, single, [])
            return Report(str(self.path), str(converted), self.nproc, (first,), notes, tuple(done))
        share = _shares(single) if match_batch and converted_args is None else ()
        plan = replace(self.plan("converted", script, True), share=share)
        arguments = self.original_args if converted_args is None else tuple(converted_args)
        outcome = run(plan, arguments, outcome_single.seconds + self.timeout)
        ranks = [read(Path(plan.out), rank) for rank in range(self.nproc)]
        done.append(_run("converted", outcome, ranks))
        unmatched = union.matched(single, ranks)
        case = Case(
            single, outcome_single, ranks, outcome, single, unmatched, root, Path(plan.root), self.steps,
            _differing(self.original_args, arguments),
        )  # fmt: skip
        if unmatched:
            case, replayed = self._replayed(case)
            done += replayed
        checks = (first, *all_checks(case))
        if resumes:
            again, runs = Restart(self, script, plan, arguments, resume_args).judged(case)
            checks, done = (*checks, *again), [*done, *runs]
        notes = _notes(self.cuda_on_cpu, single, ranks)
        return Report(
            str(self.path),
            str(converted),
            self.nproc,
            checks,
            notes,
            tuple(done),
            _curves(case),
            outcome.stacks,
        )

    def _replayed(self, case: Case) -> tuple[Case, list[Run]]:
        """The case with the original run again on the ranks' batches, where the checks of the data hold."""
        if case.crashed or case.outcome.hang:
            return replace(case, unmatched="the converted run did not come to its end"), []
        faults = [check for check in data.samples(case) if check.verdict == "fails"]
        if faults:
            return replace(case, unmatched=f"{faults[0].id} fails, so the runs trained on different data"), []
        path = self.folder / "replay.json"
        union.write_replay(case.original, case.ranks, path)
        trace, outcome, root = self._run_original("replay", path)
        again = [_run("original on the ranks' batches", outcome, [trace])]
        if outcome.codes[0] != 0:
            return replace(
                case, unmatched=f"{case.unmatched}; the original fails on the ranks' batches"
            ), again
        unmatched = union.matched(trace, case.ranks)
        return replace(case, reference=trace, root_original=root, unmatched=unmatched), again


def _differing(ours: Sequence[str], theirs: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Values in which two command lines differ."""
    return tuple((a.split("=")[-1], b.split("=")[-1]) for a, b in zip(ours, theirs, strict=False) if a != b)


def _shares(single: Trace) -> tuple[TrainLoader, ...]:
    return tuple(
        TrainLoader(order, loader.facts["samples"], loader.facts["batch"])
        for order, loader in single.train_loaders.items()
        if loader.facts["batch"]
    )


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
    resume_args: Sequence[str] | None = None,
    resumes: bool = True,
    root: Path | None = None,
    writable: Sequence[Path] = (),
    keep: Path | None = None,
    progress: Callable[[str], object] = str,
) -> Report:
    """Run ``original`` in one process and ``converted`` in ``nproc``, and say whether they train the same.

    Both run in temporary copies of their project. ``converted_args`` (default: the original's) implies that
    the user matches the global batch; else each rank's training loaders take their share of the original's
    batch. ``steps`` ends both runs after so many optimizer steps; ``timeout`` is in seconds, for the
    converted run beyond the original's time. ``resume_args`` are added to both command lines to resume from a
    checkpoint; without ``resumes`` nothing is started again. ``root`` is the folder the original runs in,
    ``writable`` are folders outside it that the scripts may write to, ``keep`` receives the records.
    ``progress`` is told what begins.

    Raises ``ScaffoldError`` for files that do not exist; never for what the scripts do.
    """
    comparison = Comparison(
        original,
        nproc=nproc,
        original_args=original_args,
        steps=steps,
        timeout=timeout,
        root=root,
        writable=writable,
        progress=progress,
    )
    with comparison:
        report = comparison.against(converted, converted_args, match_batch, resume_args, resumes)
        if keep is not None:
            shutil.copytree(comparison.folder, keep, symlinks=True, dirs_exist_ok=True)
    return report


def _run(name: str, outcome: Outcome, traces: Sequence[Trace]) -> Run:
    peaks = tuple(int(trace.end.get("peak", 0)) for trace in traces)
    return Run(name, round(outcome.seconds, 2), len(traces[0].steps), len(traces), peaks)


def _curves(case: Case) -> Curves:
    ours = case.reference.losses
    theirs = [sum(values) / len(values) for values in zip(*(r.losses for r in case.ranks), strict=False)]
    return Curves(tuple(ours), tuple(theirs), tuple(gradient_differences(case.reference, case.ranks[0])))


NOTES = {
    "rounding": "some gradients are rounding errors alone (a bias before BatchNorm): they were set to zero",
    "dropout": "dropout is drawn in training: it was off in all runs",
    "augmentation": "samples are transformed at random: the same sample was transformed alike in all runs",
    "BatchNorm": "BatchNorm takes its statistics per rank: here they were taken over all ranks",
}


def _notes(cuda_on_cpu: bool, single: Trace, ranks: Sequence[Trace]) -> tuple[str, ...]:
    notes = []
    if cuda_on_cpu:
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
