"""dstack: a task with its commands, limits and retries.

Reference: https://dstack.ai/docs/reference/dstack.yml/task/
"""

from __future__ import annotations

from scaffold.launch.job import Job


def files(job: Job) -> dict[str, str]:
    """One configuration."""
    return {"dstack.yaml": "dstack.yaml"}


def start(job: Job, folder: str) -> str:
    """From the folder of the script."""
    return f"dstack apply -f {folder}/dstack.yaml"


def check(job: Job) -> list[str]:
    """Any number of nodes and GPUs."""
    return []
