"""What is to be started: script, machines, limits. Every target renders the same job."""

from __future__ import annotations

import re
import shlex
import zlib
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from scaffold.errors import ScaffoldError


@dataclass(frozen=True)
class Job:
    """A training job. ``script`` is relative to the folder that it is run in, ``up`` leads there from the rendered file's folder.

    ``minutes`` limits its time, ``grace`` is seconds between the signal to stop and the end, ``restarts`` how often it may begin again.
    ``checkpoints`` is the folder that outlives it. ``cost`` is an upper bound in US dollars, as text, or empty.
    """

    script: str
    arguments: tuple[str, ...] = ()
    nodes: int = 1
    gpus_per_node: int = 1
    gpu: str = "H100"
    name: str = ""
    minutes: int = 24 * 60
    grace: int = 120
    restarts: int = 3
    checkpoints: str = "checkpoints"
    image: str = "pytorch/pytorch:latest"
    cost: str = ""
    up: str = ".."

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise ScaffoldError(f"--nodes {self.nodes}: at least 1 machine is needed")
        if self.gpus_per_node < 1:
            raise ScaffoldError(f"--gpus-per-node {self.gpus_per_node}: at least 1 GPU is needed")
        if self.minutes < 1:
            raise ScaffoldError(f"--time {self.minutes}: at least 1 minute is needed")
        if any("\0" in text for text in (self.script, *self.arguments)):
            raise ScaffoldError("a null character cannot be part of a command line")

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.nodes * self.gpus_per_node

    @property
    def label(self) -> str:
        """A name that every scheduler takes: lower case letters, digits and hyphens, 40 at most (RFC 1123)."""
        raw = self.name or PurePosixPath(self.script).stem
        cleaned = re.sub(r"[^a-z0-9]+", "-", raw.lower()).strip("-")[:40].strip("-")
        return cleaned if cleaned and cleaned[0].isalpha() else f"job-{cleaned}".strip("-")

    @property
    def port(self) -> int:
        """A port for the rendezvous that jobs of other names do not share."""
        return 29400 + zlib.crc32(self.label.encode()) % 500

    @property
    def command(self) -> str:
        """Script and arguments as one line for a shell."""
        return shlex.join([self.script, *self.arguments])

    @property
    def hours(self) -> str:
        """The time limit as ``HH:MM:SS``."""
        return f"{self.minutes // 60:02}:{self.minutes % 60:02}:00"

    def named(self, name: str) -> Job:
        """The same job under another name."""
        return replace(self, name=name)
