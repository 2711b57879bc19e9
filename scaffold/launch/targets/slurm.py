"""Slurm: one torchrun per node under srun, requeued with a checkpoint when time runs out.

Reference: https://slurm.schedmd.com/sbatch.html
"""

from __future__ import annotations

from scaffold.launch.job import Job


def files(job: Job) -> dict[str, str]:
    """One batch script."""
    return {"slurm.sh": "slurm.sh"}


def start(job: Job, folder: str) -> str:
    """From the folder of the script."""
    return f"mkdir -p logs && sbatch {folder}/slurm.sh"


def check(job: Job) -> list[str]:
    """Any number of nodes and GPUs."""
    return ["partition and account are the cluster's own: sbatch --partition=… --account=…", "a script that saves and resumes goes on after a requeue; one that does not begins again"]
