"""Rendered files through the tools that read them, where these are installed."""

from __future__ import annotations

from typing import Any

import pytest

from scaffold.launch.job import Job
from scaffold.launch.render import render
from tests.launch.platform import documents

JOBS = [Job("train.py", ("--name", "a b"), nodes=nodes, gpus_per_node=8, cost="250.00") for nodes in (1, 2)]


def unknown(given: Any, read: Any, path: str = "") -> list[str]:
    """Keys that a tool dropped."""
    if isinstance(given, dict):
        return [x for k, v in given.items() for x in ([f"{path}/{k}"] if k not in read else unknown(v, read[k], f"{path}/{k}"))]
    return []


@pytest.mark.parametrize("job", JOBS, ids=["one", "two"])
def test_dstack_parses_its_task(job: Job) -> None:
    configurations = pytest.importorskip("dstack._internal.core.models.configurations")
    (task,) = documents(render(job, "dstack").files["dstack.yaml"])
    assert configurations.parse_run_configuration(task).nodes == job.nodes


@pytest.mark.parametrize("job", JOBS, ids=["one", "two"])
def test_kubeflow_knows_every_key(job: Job) -> None:
    models = pytest.importorskip("kubeflow_trainer_api.models")
    (manifest,) = documents(render(job, "trainjob").files["trainjob.yaml"])
    assert unknown(manifest, models.TrainerV1alpha1TrainJob.from_dict(manifest).to_dict()) == []


@pytest.mark.parametrize("job", JOBS, ids=["one", "two"])
def test_skypilot_reads_its_task(job: Job, tmp_path: Any) -> None:
    sky = pytest.importorskip("sky")
    path = tmp_path / "task.yaml"
    path.write_text(render(job, "skypilot").files["skypilot.yaml"])
    assert sky.Task.from_yaml(str(path)).num_nodes == job.nodes


@pytest.mark.parametrize("job", JOBS, ids=["one", "two"])
def test_nodus_models_the_manifest(job: Job) -> None:
    models = pytest.importorskip("nodus.api.models._nodus_dev_v1")
    (manifest,) = documents(render(job, "nodus").files["nodus.yaml"])
    assert models.Job.model_validate(manifest).spec.maxCostUSD == "250.00"
