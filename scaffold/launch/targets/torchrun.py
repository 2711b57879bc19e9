"""torchrun in a shell script: one machine, or the same script on each of several.

Reference: https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

from scaffold.launch.job import Job


def files(job: Job) -> dict[str, str]:
    """One shell script."""
    return {"torchrun.sh": "torchrun.sh"}


def start(job: Job, folder: str) -> str:
    """On each machine."""
    return f"bash {folder}/torchrun.sh" if job.nodes == 1 else f"HEAD_ADDR=<first machine> bash {folder}/torchrun.sh    # on each of the {job.nodes} machines"


def check(job: Job) -> list[str]:
    """Any number of machines and GPUs."""
    return [] if job.nodes == 1 else [f"port {job.port} of the first machine must be open to the others"]
