"""Plays every platform: reads a rendered file, sets what the platform would set, starts its agents on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

WORKER = """\
import json, os, pathlib, signal, sys, time
import torch, torch.distributed as dist
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
rank, out = dist.get_rank(), pathlib.Path(os.environ["SEEN"])
told = {"rank": rank, "world": int(total), "argv": sys.argv[1:], "host": os.environ.get("GROUP_RANK")}
(out / f"{rank}-{os.getpid()}.part").write_text(json.dumps(told))
(out / f"{rank}-{os.getpid()}.part").rename(out / f"{rank}-{os.getpid()}.json")
if "--wait" in sys.argv:
    (out / "ready").touch()
    while not stop:
        time.sleep(0.05)
    if rank == 0:
        (out / "saved").touch()
dist.destroy_process_group()
sys.exit(3 if "--fail" in sys.argv else 0)
"""


@dataclass
class Platform:
    """A folder with the worker script, where agents are started. ``seen`` collects what each rank saw."""

    folder: Path
    fakes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "worker.py").write_text(WORKER)
        self.seen = self.folder / "seen"
        self.seen.mkdir(exist_ok=True)
        bin = self.folder / "bin"
        bin.mkdir(exist_ok=True)
        torchrun = f'#!/bin/sh\nexec "{sys.executable}" -m torch.distributed.run "$@"\n'
        for name, text in {"torchrun": torchrun, **self.fakes}.items():
            (bin / name).write_text(text)
            (bin / name).chmod(0o755)
        self.bin = bin

    def environment(self, **more: str) -> dict[str, str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "SLURM_", "RANK", "WORLD_SIZE", "MASTER_"))}
        return {**env, "PATH": f"{self.bin}{os.pathsep}{env['PATH']}", "SEEN": str(self.seen), "OMP_NUM_THREADS": "1", **more}

    def start(self, command: list[str], **env: str) -> subprocess.Popen[str]:
        """Start one agent."""
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment(**env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def finish(self, agents: list[subprocess.Popen[str]], timeout: float = 90) -> list[int]:
        """Wait for agents; their exit codes. Those that do not end are killed, and count as -9."""
        codes = []
        for agent in agents:
            try:
                agent.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                agent.kill()
            codes.append(agent.wait())
        return codes

    def ranks(self) -> list[dict[str, Any]]:
        """What the ranks saw, by rank."""
        return sorted((json.loads(p.read_text()) for p in self.seen.glob("*.json")), key=lambda r: r["rank"])


def documents(text: str) -> list[Any]:
    """The documents of a YAML file."""
    return list(yaml.safe_load_all(text))


def container(document: dict[str, Any]) -> dict[str, Any]:
    """The container of a Job or a replica."""
    found: dict[str, Any] = document["template"]["spec"]["containers"][0]
    return found


def fresh(folder: Path) -> Path:
    """An empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
