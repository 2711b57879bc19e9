"""Kubernetes with the Kubeflow training operator v1: a PyTorchJob.

Reference: https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/pytorch/
"""

from __future__ import annotations

from scaffold.launch.job import Job


def files(job: Job) -> dict[str, str]:
    """One manifest."""
    return {"pytorchjob.yaml": "pytorchjob.yaml"}


def start(job: Job, folder: str) -> str:
    """With the cluster that kubectl knows."""
    return f"kubectl apply -f {folder}/pytorchjob.yaml"


def check(job: Job) -> list[str]:
    """Any number of pods and GPUs."""
    return [f"the image must hold the script; checkpoints go to the claim {job.label}-checkpoints, which must exist"]
