"""Scaling efficiency, measured: the converted script on 1, 2, 4, … processes, its steps timed by the watch of ``verify``.

With the batch of each process as it is, N processes handle N batches a step: ``efficiency = steps per second on N / steps per second on 1``.
Where one size only can be run, a model gives a range: the ring all-reduce of the gradients moves ``2 (N - 1) / N`` times their bytes
(Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009) over a link, hidden behind the backward pass or not at all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from scaffold.errors import ScaffoldError
from scaffold.verify import project
from scaffold.verify.checks.ending import failure
from scaffold.verify.launch import run
from scaffold.verify.plan import Plan
from scaffold.verify.trace import read

WARM_UP = 0.2
"""Share of the steps that is dropped at the start."""


@dataclass(frozen=True)
class Size:
    """Seconds a step on ``processes``: lower quartile, median, upper quartile."""

    processes: int
    steps: int
    low: float
    median: float
    high: float


def measure(script: Path, arguments: Sequence[str], processes: Sequence[int], steps: int, timeout: float, progress: Callable[[str], object] = str) -> list[Size]:
    """Run ``script`` for ``steps`` optimizer steps on each number of processes.

    Raises ``ScaffoldError`` for a script that does not exist or does not run, with what it ended with.
    """
    import torch

    found = []
    located = project.locate(script, None)
    for count in processes:
        progress(f"running {script.name} on {count} process{'es' if count > 1 else ''}, {steps} steps")
        with tempfile.TemporaryDirectory(prefix="scaffold-measure-") as folder:
            copied = project.copy(located, located, Path(folder) / "project")
            plan = Plan(
                script=str(copied.path), root=str(copied.root), out=str(Path(folder) / "records"), converted=True, world=count,
                cuda_on_cpu=torch.cuda.device_count() < count, steps=steps,
            )  # fmt: skip
            outcome = run(plan, list(arguments), timeout)
            trace = read(Path(plan.out), 0)
            why = outcome.hang or failure(trace, outcome.codes[0])
            times = [step["t"] for step in trace.steps]
            if why and trace.end.get("how") != "stopped":
                raise ScaffoldError(f"{script} on {count} processes: {why}")
        kept = times[max(1, int(len(times) * WARM_UP)) :]
        gaps = [b - a for a, b in zip(kept, kept[1:], strict=False)]
        if len(gaps) < 4:
            raise ScaffoldError(f"{script} on {count} processes: {len(times)} optimizer steps are too few to time; give it more work, or a smaller --steps than it takes")
        low, median, high = quantiles(gaps, n=4)
        found.append(Size(count, len(times), low, median, high))
    return found


def efficiency(base: Size, size: Size) -> tuple[float, float, float]:
    """Low, median and high efficiency of ``size`` against ``base``: shares of perfect speed-up."""
    return min(1.0, base.low / size.high), min(1.0, base.median / size.median), min(1.0, base.high / size.low)


def modelled(step: float, gradient_bytes: float, processes: int, gigabytes_per_second: float) -> tuple[float, float]:
    """Low and high efficiency by the communication model: the all-reduce after the step, and hidden behind two thirds of it (the backward)."""
    moved = 2 * (processes - 1) / processes * gradient_bytes / (gigabytes_per_second * 1e9)
    return step / (step + moved), step / (step + max(0.0, moved - step * 2 / 3))
