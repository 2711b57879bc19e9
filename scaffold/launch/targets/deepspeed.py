"""DeepSpeed: its launcher with a host file; the script stays as it is.

Reference: https://www.deepspeed.ai/getting-started/#launching-deepspeed-training
"""

from __future__ import annotations

from scaffold.launch.job import Job


def files(job: Job) -> dict[str, str]:
    """Shell script, and a host file for several machines."""
    return {"deepspeed.sh": "deepspeed.sh"} | ({"hostfile": "hostfile"} if job.nodes > 1 else {})


def start(job: Job, folder: str) -> str:
    """On each machine, so that no password-less ssh is needed."""
    where = "" if job.nodes == 1 else f"NODE_RANK=<0 to {job.nodes - 1}> HEAD_ADDR=<first machine> "
    return f"{where}bash {folder}/deepspeed.sh"


def check(job: Job) -> list[str]:
    """Any number of machines and GPUs."""
    return [] if job.nodes == 1 else ["write the names of the machines into the host file"]
