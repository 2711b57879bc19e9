"""Kubernetes without an operator: an Indexed Job and a headless Service.

Reference: https://kubernetes.io/docs/tasks/job/job-with-pod-to-pod-communication/
"""

from __future__ import annotations

from scaffold.launch.job import Job


def files(job: Job) -> dict[str, str]:
    """One manifest."""
    return {"kubernetes.yaml": "kubernetes.yaml"}


def start(job: Job, folder: str) -> str:
    """With the cluster that kubectl knows."""
    return f"kubectl apply -f {folder}/kubernetes.yaml"


def check(job: Job) -> list[str]:
    """Any number of pods and GPUs."""
    return [f"the image must hold the script; checkpoints go to the claim {job.label}-checkpoints, which must exist"]
