"""What a watched process is told before it runs the script. Written by the parent, read by the runner."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TrainLoader:
    """A loader that the original trains from: its place in the order of creation and its size."""

    order: int
    samples: int
    batch: int


@dataclass(frozen=True)
class Plan:
    """Instructions for one run of one script.

    ``script`` and ``root`` are absolute paths inside the temporary copy; ``out`` is where each rank writes
    its records (``out/rank0`` ...). ``world`` is the number of processes of the *converted* run. ``steps``
    ends the run after that many optimizer steps. ``share`` lists the loaders whose batch the ranks divide.
    ``replay`` names a file with the batches and draws the original must take. ``timed``: steps are timed, and nothing
    else is watched that takes time.
    """

    script: str
    root: str
    out: str
    converted: bool
    world: int
    cuda_on_cpu: bool
    steps: int | None = None
    share: tuple[TrainLoader, ...] = ()
    replay: str | None = None
    writable: tuple[str, ...] = ()
    timed: bool = False

    def write(self, path: Path) -> None:
        """Save as JSON."""
        path.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")

    def source(self) -> str:
        """The text of all Python files of the project, to tell what the script may use."""
        files = (path for path in sorted(Path(self.root).rglob("*.py")) if path.is_file())
        return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)

    @classmethod
    def read(cls, path: Path) -> Plan:
        """Load what ``write`` saved."""
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        data["share"] = tuple(TrainLoader(**item) for item in data["share"])
        data["writable"] = tuple(data["writable"])
        return cls(**data)
