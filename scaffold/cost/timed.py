"""A script run under the launch environment of torchrun at several sizes, its optimizer steps timed."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from scaffold.errors import ScaffoldError
from scaffold.verify import launch, project, trace
from scaffold.verify.plan import Plan

BLOCKS = 5
"""Parts of a run whose middles tell the spread: single steps hold pauses (evaluation, checkpoints) that a mean would take in."""

FEWEST = 2 * BLOCKS
LOOK = 0.5  # seconds between two looks at how far a run is

Progress = Callable[[int, int, int], None]
"""Called with the number of processes, the steps done, the steps wanted."""


@dataclass(frozen=True)
class Run:
    """One size: seconds of each step after the warm-up, rows and elements that all ranks together took in a step, bytes of gradients, and whether they are sharded."""

    nproc: int
    seconds: tuple[float, ...]
    rows: float
    elements: float
    gradients: int
    sharded: bool

    @property
    def middles(self) -> list[float]:
        """The median step of each part of the run."""
        size = len(self.seconds) / BLOCKS
        return [median(self.seconds[round(i * size) : round((i + 1) * size)]) for i in range(BLOCKS)]

    def step(self) -> dict[str, float]:
        """Seconds of a step: the median of all, the smallest and the largest of the parts."""
        middle = median(self.seconds)
        return {"low": min(middle, *self.middles), "expected": middle, "high": max(middle, *self.middles)}


@dataclass(frozen=True)
class Wanted:
    """What is to be measured. ``timeout``: seconds for one size."""

    script: Path
    arguments: tuple[str, ...]
    sizes: tuple[int, ...]
    steps: int
    warmup: int
    timeout: float
    root: Path | None = None


def devices() -> tuple[int, str]:
    """The number of GPUs of this machine, and what the script runs on."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.device_count(), torch.cuda.get_device_name(0)
    return 0, f"CPU, {os.cpu_count()} cores"


def measure(wanted: Wanted, progress: Progress) -> list[Run]:
    """Run the script at each size, in temporary copies of its project.

    Raises:
        ScaffoldError: there are fewer GPUs than asked for, the script fails, or it takes too few steps.
    """
    gpus, _ = devices()
    if gpus and max(wanted.sizes) > gpus:
        fitting = ",".join(str(n) for n in wanted.sizes if n <= gpus) or str(gpus)
        raise ScaffoldError(f"--nproc {max(wanted.sizes)}: this machine has {gpus} GPUs; give --nproc {fitting}")
    script = project.locate(wanted.script, wanted.root)
    folder = Path(tempfile.mkdtemp(prefix="scaffold-measure-"))
    try:
        return [_one(wanted, script, folder / str(n), n, not gpus, progress) for n in wanted.sizes]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _one(wanted: Wanted, script: project.Script, folder: Path, nproc: int, on_cpu: bool, progress: Progress) -> Run:
    copied = project.copy(script, script, folder / "project")
    total = wanted.warmup + wanted.steps
    out = folder / "records"
    plan = Plan(str(copied.path), str(copied.root), str(out), True, nproc, on_cpu, steps=total, timed=True)
    ended = threading.Event()
    watch = threading.Thread(target=_follow, args=(out / "rank0" / "events.jsonl", nproc, total, ended, progress), daemon=True)
    watch.start()
    try:
        outcome = launch.run(plan, wanted.arguments, wanted.timeout)
    finally:
        ended.set()
        watch.join()
    ranks = [trace.read(out, rank) for rank in range(nproc)]
    _check(wanted, nproc, outcome, ranks)
    times = ranks[0].of("gpu-times")
    seconds = times[0]["seconds"] if times else [step["t"] for step in ranks[0].steps]
    after = seconds[wanted.warmup - 1 :]
    counted = [step for rank in ranks for step in rank.steps[wanted.warmup :]]
    rows, elements = (sum(step[kind] for step in counted) / (len(after) - 1) for kind in ("rows", "elements"))
    first = ranks[0].steps[0]
    return Run(nproc, tuple(b - a for a, b in zip(after, after[1:], strict=False)), rows, elements, first["gradients"], first["sharded"])


def _check(wanted: Wanted, nproc: int, outcome: launch.Outcome, ranks: Sequence[trace.Trace]) -> None:
    name = f"{wanted.script} on {nproc} process{'es' * (nproc != 1)}"
    if outcome.hang:
        raise ScaffoldError(f"{name}: {outcome.hang}; give --timeout more, or fewer --steps")
    for rank in ranks:
        if rank.end.get("how") == "error":
            place = f" at {rank.end['place']}" if rank.end["place"] else ""
            raise ScaffoldError(f"{name}: ended with {rank.end['message']}{place}; does it run by itself?")
    if any(code != 0 for code in outcome.codes):
        tail = next((r.stderr.strip().splitlines()[-1] for r in ranks if r.stderr.strip()), "no message")
        raise ScaffoldError(f"{name}: ended with exit codes {outcome.codes} ({tail[:200]})")
    taken = min(len(rank.steps) for rank in ranks)
    if taken < wanted.warmup + FEWEST:
        raise ScaffoldError(f"{name}: took {taken} optimizer steps; at least {wanted.warmup + FEWEST} are needed: give it more data or epochs (after --), or a smaller --warmup")
    if nproc > 1 and not any(step["group"] for step in ranks[0].steps):
        raise ScaffoldError(f"{name}: no process group was made, so each process trained alone; convert the script first (scaffold convert)")


def _follow(events: Path, nproc: int, total: int, ended: threading.Event, progress: Progress) -> None:
    known = -1
    while not ended.wait(LOOK if known >= 0 else 0):
        try:
            done = events.read_bytes().count(b'"e": "step"')
        except OSError:
            done = 0
        if done != known:
            progress(nproc, done, total)
        known = done


def results(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The sizes as plain data: seconds of a step, samples a second, efficiency to the smallest size."""
    base = min(runs, key=lambda run: run.nproc)
    found = []
    for run in sorted(runs, key=lambda r: r.nproc):
        step, first = run.step(), base.step()
        work = (run.elements or run.nproc) / (base.elements or base.nproc) * base.nproc / run.nproc
        ends = {"low": ("low", "high"), "expected": ("expected", "expected"), "high": ("high", "low")}
        same = run is base
        found.append(
            {
                "nproc": run.nproc,
                "steps": len(run.seconds),
                "step_seconds": step,
                "samples_per_second": {"low": run.rows / step["high"], "expected": run.rows / step["expected"], "high": run.rows / step["low"]} if run.rows else None,
                "efficiency": {name: 1.0 if same else work * first[a] / step[b] for name, (a, b) in ends.items()},
            }
        )
    return found
