"""Nodus: a shell script around nodus run, and the manifest of the same job.

One machine needs no launcher flags: torchrun reads the number of processes from PET_NPROC_PER_NODE, which is set there.
"""

from __future__ import annotations

from scaffold.errors import ScaffoldError
from scaffold.launch.job import Job

SIZES = (1, 2, 4, 8)
MACHINES = 8


def files(job: Job) -> dict[str, str]:
    """Shell script and manifest."""
    return {"nodus.sh": "nodus.sh", "nodus.yaml": "nodus.yaml"}


def start(job: Job, folder: str) -> str:
    """By the command, or from the manifest."""
    return f"bash {folder}/nodus.sh    # or: nodus apply -f {folder}/nodus.yaml"


def check(job: Job) -> list[str]:
    """1, 2, 4 or 8 GPUs a machine, 8 machines at most."""
    if job.gpus_per_node not in SIZES:
        near = min(SIZES, key=lambda size: (abs(size - job.gpus_per_node), -size))
        raise ScaffoldError(f"--gpus-per-node {job.gpus_per_node}: Nodus has machines of 1, 2, 4 or 8 GPUs; the nearest is {near}")
    if job.nodes > MACHINES:
        raise ScaffoldError(f"--nodes {job.nodes}: a gang on Nodus has {MACHINES} machines at most; use {MACHINES}")
    notes = [] if job.cost else ["no --max-cost is set: give one just above the estimate (scaffold cost)"]
    if job.nodes > 1:
        notes.append("multi-node is in Beta: FSDP across machines, and several GPUs a machine across machines, are not qualified yet")
        notes.append("all machines are placed on one private network; with wider placement, traffic on public addresses is not encrypted")
    return notes
