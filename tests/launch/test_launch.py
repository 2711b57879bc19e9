"""Rendered files are run as their platform would run them, on loopback."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from scaffold.launch.job import Job
from scaffold.launch.render import all_targets, render
from tests.launch.platform import Platform, container, documents

JOB = Job("worker.py", ("--lr", "0.1"), nodes=2, gpus_per_node=1, restarts=0)

SRUN = """#!/bin/bash
# What srun does here: one task on each node, signals handed on.
while [[ "$1" == --* ]]; do shift; done
pids=()
for node in $(seq "${TASKS:-2}"); do SLURM_PROCID=$((node - 1)) "$@" & pids+=($!); done
trap 'kill -TERM "${pids[@]}"' TERM
code=0
for pid in "${pids[@]}"; do
    wait "$pid" || code=$?
    while kill -0 "$pid" 2>/dev/null; do code=0; wait "$pid" || code=$?; done
done
exit $code
"""
SCONTROL = """#!/bin/bash
if [[ "$1 $2" == "show hostnames" ]]; then echo localhost; else echo "$@" >> requeued; fi
"""


def put(platform: Platform, job: Job, target: str) -> dict[str, str]:
    """The rendered files, in the folder ``launch``."""
    files = render(job, target).files
    folder = platform.folder / "launch"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return files


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def check_two(platform: Platform, codes: list[int]) -> None:
    ranks = platform.ranks()
    assert codes == [0] * len(codes)
    assert [r["rank"] for r in ranks] == [0, 1]
    assert {r["world"] for r in ranks} == {2}
    assert all(r["argv"] == ["--lr", "0.1"] for r in ranks)


def test_torchrun_on_one_machine(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    put(platform, Job("worker.py", ("--lr", "0.1"), gpus_per_node=2, restarts=0), "torchrun")
    check_two(platform, platform.finish([platform.start(["bash", "launch/torchrun.sh"])]))
    assert list((tmp_path / "logs").rglob("stdout.log"))


def test_torchrun_tells_of_a_failure(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    put(platform, Job("worker.py", gpus_per_node=2, restarts=0), "torchrun")
    assert platform.finish([platform.start(["bash", "launch/torchrun.sh", "--fail"])]) == [1]


def test_torchrun_on_two_machines(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    put(platform, JOB, "torchrun")
    where = {"HEAD_ADDR": "127.0.0.1", "HEAD_PORT": free_port()}
    check_two(platform, platform.finish([platform.start(["bash", "launch/torchrun.sh"], **where) for _ in range(2)]))


def test_torchrun_from_pet_variables_alone(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    put(platform, JOB, "torchrun")
    where = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": free_port()}
    check_two(platform, platform.finish([platform.start(["bash", "launch/torchrun.sh"], PET_NODE_RANK=str(n), **where) for n in range(2)]))


def test_no_head_is_an_error_not_localhost(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    put(platform, JOB, "torchrun")
    agent = platform.start(["bash", "launch/torchrun.sh"])
    output, _ = agent.communicate(timeout=30)
    assert agent.returncode != 0 and "first machine" in output
    assert platform.ranks() == []


def slurm(platform: Platform, round: str = "0", **env: str) -> object:
    return platform.start(
        ["bash", "launch/slurm.sh"], SLURM_JOB_ID=str(40_000 + os.getpid() % 20_000), SLURM_JOB_NODELIST="localhost", SLURM_RESTART_COUNT=round, **env
    )


def test_slurm(tmp_path: Path) -> None:
    platform = Platform(tmp_path, {"srun": SRUN, "scontrol": SCONTROL})
    put(platform, JOB, "slurm")
    check_two(platform, platform.finish([slurm(platform)]))  # type: ignore[list-item]
    assert not (tmp_path / "requeued").exists()


@pytest.mark.parametrize(("round", "code"), [("0", 0), ("1", 1)])
def test_slurm_saves_and_requeues_when_time_is_up(round: str, code: int, tmp_path: Path) -> None:
    platform = Platform(tmp_path, {"srun": SRUN, "scontrol": SCONTROL})
    put(platform, Job("worker.py", ("--wait",), nodes=2, gpus_per_node=1, restarts=1), "slurm")
    agent = slurm(platform, round)
    deadline = time.monotonic() + 60
    while len(platform.ranks()) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    agent.send_signal(signal.SIGUSR1)  # type: ignore[attr-defined]
    assert platform.finish([agent]) == [code]  # type: ignore[list-item]
    assert (platform.seen / "saved").exists()
    assert (tmp_path / "requeued").exists() == (code == 0)


def test_slurm_without_the_second_node_fails(tmp_path: Path) -> None:
    platform = Platform(tmp_path, {"srun": SRUN.replace('seq "${TASKS:-2}"', "seq 1").replace('"$@" &', '"$1" --rdzv-conf=join_timeout=5 "${@:2}" &'), "scontrol": SCONTROL})
    put(platform, JOB, "slurm")
    assert platform.finish([slurm(platform)]) != [0]  # type: ignore[list-item]
    assert platform.ranks() == []


def test_kubernetes_indexed_job(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    service, job = documents(put(platform, JOB, "kubernetes")["kubernetes.yaml"])
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"] is True
    assert job["spec"]["completionMode"] == "Indexed" and job["spec"]["completions"] == job["spec"]["parallelism"] == 2
    pod = job["spec"]["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"] and pod["volumes"][0]["emptyDir"]["medium"] == "Memory"
    endpoint = f"{job['metadata']['name']}-0.{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    local = f"127.0.0.1:{free_port()}"
    command = [c.replace(endpoint, local) for c in container(job["spec"])["command"]]
    assert f"--rdzv-endpoint={local}" in command
    check_two(platform, platform.finish([platform.start(command) for _ in range(2)]))


@pytest.mark.parametrize("target", ["trainjob", "pytorchjob"])
def test_kubeflow(target: str, tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    (document,) = documents(next(iter(put(platform, JOB, target).values())))
    if target == "trainjob":
        trainer = document["spec"]["trainer"]
        assert (trainer["numNodes"], trainer["numProcPerNode"]) == (2, 1)
        assert not any(entry["name"].startswith("PET_") for entry in trainer["env"])
        command = trainer["command"]
    else:
        replicas = document["spec"]["pytorchReplicaSpecs"]
        assert replicas["Master"]["replicas"] + replicas["Worker"]["replicas"] == 2
        command = container(replicas["Master"])["command"]
        assert command == container(replicas["Worker"])["command"]
    where = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": free_port()}
    check_two(platform, platform.finish([platform.start(command, PET_NODE_RANK=str(n), **where) for n in range(2)]))


def test_skypilot(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    (task,) = documents(put(platform, JOB, "skypilot")["skypilot.yaml"])
    assert task["num_nodes"] == 2 and task["resources"]["accelerators"] == "H100:1"
    where = {"SKYPILOT_NODE_IPS": "127.0.0.1\n127.0.0.1", "SKYPILOT_NUM_NODES": "2", "SKYPILOT_NUM_GPUS_PER_NODE": "1"}
    check_two(platform, platform.finish([platform.start(["bash", "-c", task["run"]], SKYPILOT_NODE_RANK=str(n), **where) for n in range(2)]))


def test_dstack(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    (task,) = documents(put(platform, JOB, "dstack")["dstack.yaml"])
    where = {"DSTACK_NODES_NUM": "2", "DSTACK_GPUS_PER_NODE": "1", "DSTACK_MASTER_NODE_IP": "127.0.0.1"}
    script = "\n".join(task["commands"])
    check_two(platform, platform.finish([platform.start(["bash", "-c", script], DSTACK_NODE_RANK=str(n), **where) for n in range(2)]))


def test_nodus_on_one_machine(tmp_path: Path) -> None:
    """PET_NPROC_PER_NODE is set on the machine, and the command behind -- is run there."""
    nodus = '#!/bin/bash\nwhile [[ "$1" != -- ]]; do shift; done\nshift\nPET_NPROC_PER_NODE=2 exec "$@"\n'
    platform = Platform(tmp_path, {"nodus": nodus})
    files = put(platform, Job("worker.py", ("--lr", "0.1"), gpus_per_node=2, cost="208.00"), "nodus")
    check_two(platform, platform.finish([platform.start(["bash", "launch/nodus.sh"])]))
    (manifest,) = documents(files["nodus.yaml"])
    assert manifest["spec"]["maxCostUSD"] == "208.00" and "distributed" not in manifest["spec"]
    assert "--max-cost 208.00" in files["nodus.sh"]


def test_nodus_gang() -> None:
    files = render(Job("train.py", nodes=2, gpus_per_node=8), "nodus").files
    assert "--nodes 2 --gpus-per-node 8 --launcher torchrun" in files["nodus.sh"]
    (manifest,) = documents(files["nodus.yaml"])
    assert manifest["spec"]["distributed"] == {"nodes": 2, "gpusPerNode": 8, "launcher": "Torchrun"}
    assert manifest["spec"]["resources"]["gpu"]["count"] == 8


def test_every_target_is_one_module_and_says_how_to_start() -> None:
    for name in all_targets():
        if name == "verl":
            continue
        for nodes in (1, 2):
            launch = render(Job("train.py", nodes=nodes, gpus_per_node=8), name)
            assert launch.start and all("launch/" in text.split("import")[0] or file == "hostfile" for file, text in launch.files.items())
            assert all(len(text.splitlines()) < 90 for text in launch.files.values())
