"""SkyPilot: a task file for sky launch, or a managed job that recovers from preemption.

Reference: https://docs.skypilot.co/en/latest/reference/yaml-spec.html
"""

from __future__ import annotations

from scaffold.launch.job import Job


def files(job: Job) -> dict[str, str]:
    """One task file."""
    return {"skypilot.yaml": "skypilot.yaml"}


def start(job: Job, folder: str) -> str:
    """As a managed job, which begins again after a preemption."""
    return f"sky jobs launch -n {job.label} {folder}/skypilot.yaml"


def check(job: Job) -> list[str]:
    """Any number of nodes and GPUs."""
    return [f"checkpoints go to the bucket {job.label}-checkpoints, mounted as {job.checkpoints}/"]
