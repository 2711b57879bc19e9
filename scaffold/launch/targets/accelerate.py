"""Accelerate: a configuration and the command that starts the script under it.

Reference: https://huggingface.co/docs/accelerate/package_reference/cli
"""

from __future__ import annotations

from scaffold.launch.job import Job


def files(job: Job) -> dict[str, str]:
    """Configuration and shell script."""
    return {"accelerate.yaml": "accelerate.yaml", "accelerate.sh": "accelerate.sh"}


def start(job: Job, folder: str) -> str:
    """On each machine."""
    where = "" if job.nodes == 1 else f"MACHINE_RANK=<0 to {job.nodes - 1}> HEAD_ADDR=<first machine> "
    return f"{where}bash {folder}/accelerate.sh"


def check(job: Job) -> list[str]:
    """Any number of machines and GPUs."""
    return []
