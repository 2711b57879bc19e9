"""Ray: a TorchTrainer whose workers run the unchanged script, each in a process of its own.

A worker of Ray Train is a thread with a process group already made; a script that makes its own, or handles signals, needs a
process. Reference: https://docs.ray.io/en/latest/train/train.html
"""

from __future__ import annotations

from scaffold.launch.job import Job


def files(job: Job) -> dict[str, str]:
    """A Python file that Ray runs."""
    return {"ray_train.py": "ray_train.py"}


def start(job: Job, folder: str) -> str:
    """As a job of a running cluster; without one, python starts a local one."""
    return f"ray job submit --working-dir . -- python {folder}/ray_train.py    # or, on this machine: python {folder}/ray_train.py"


def check(job: Job) -> list[str]:
    """Any number of workers."""
    return []
