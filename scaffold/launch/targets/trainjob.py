"""Kubernetes with Kubeflow Trainer v2: a TrainJob on the torch-distributed runtime.

Reference: https://www.kubeflow.org/docs/components/trainer/
"""

from __future__ import annotations

from scaffold.launch.job import Job


def files(job: Job) -> dict[str, str]:
    """One manifest."""
    return {"trainjob.yaml": "trainjob.yaml"}


def start(job: Job, folder: str) -> str:
    """With the cluster that kubectl knows."""
    return f"kubectl apply -f {folder}/trainjob.yaml"


def check(job: Job) -> list[str]:
    """Any number of pods and GPUs; the operator sets PET_* itself and refuses a job that does."""
    return ["the image must hold the script; the cluster needs the runtime torch-distributed"]
