"""Kill a process of a generated project's run again and again: the end must be that of a run that nobody touched.

    python -m benchmarks.faults [--kills 10]

Each run starts under ``torchrun --max-restarts``; one rank gets SIGKILL at a random moment after the first checkpoint, during a save
or between two. Compared are the final parameters; a run that does not end in time counts as failed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from scaffold.new import generate


def start(project: Path, checkpoints: Path) -> subprocess.Popen[bytes]:
    """A run of 60 steps on two processes, saving every 10."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=3", "train.py"]
    settings = ["--steps", "60", "--batch", "8", "--log-every", "20", "--save-every", "10", "--checkpoints", str(checkpoints)]
    return subprocess.Popen([*command, *settings], cwd=project, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def weights(checkpoints: Path) -> dict[str, torch.Tensor]:
    """The parameters of the last checkpoint."""
    dcp_to_torch_save(max(checkpoints.glob("step-*")), checkpoints / "whole.pt")
    loaded: dict[str, torch.Tensor] = torch.load(checkpoints / "whole.pt", weights_only=False)["model"]
    return loaded


def workers(launcher: int) -> list[int]:
    """The processes that a launcher started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rsplit(")", 1)[1].split()[1]) == launcher:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def killed(project: Path, checkpoints: Path, timeout: float) -> str:
    """Run and kill once; what happened, empty for a good end."""
    run = start(project, checkpoints)
    while not list(checkpoints.glob("step-*")) and run.poll() is None:
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.5))
    victims = workers(run.pid)
    if victims:
        os.kill(random.choice(victims), signal.SIGKILL)
    try:
        code = run.wait(timeout)
    except subprocess.TimeoutExpired:
        for pid in workers(run.pid):
            os.kill(pid, signal.SIGKILL)
        run.kill()
        return f"no end within {timeout:.0f} s"
    return "" if code == 0 else f"exit status {code}"


def main() -> None:
    """Print a line for each kill."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10, help="for each strategy")
    parser.add_argument("--timeout", type=float, default=120)
    options = parser.parse_args()
    good = total = 0
    for strategy in ("ddp", "fsdp2"):
        with tempfile.TemporaryDirectory() as place:
            project = Path(place) / "project"
            generate(project, {"strategy": strategy}, [], None, True)
            start(project, Path(place) / "whole").wait(options.timeout)
            ours = weights(Path(place) / "whole")
            for number in range(options.kills):
                folder = Path(place) / f"killed-{number}"
                why = killed(project, folder, options.timeout)
                gap = 0.0
                if not why:
                    theirs = weights(folder)
                    gap = max(float((ours[key] - theirs[key]).abs().max()) for key in ours)
                    why = "" if gap <= 1e-6 else "other parameters"
                total, good = total + 1, good + (not why)
                print(f"{strategy:8} kill {number:3}  {why or 'as if nothing had happened'}  largest difference {gap:.1e}", flush=True)
    print(f"{good} of {total} runs end as the one that nobody touched")


if __name__ == "__main__":
    main()
