"""The GPUs that scaffold knows."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scaffold.errors import ScaffoldError
from scaffold.strategy.sizes import MIB


@dataclass(frozen=True)
class Gpu:
    """A GPU: memory in bytes, link bandwidth in GB/s between GPUs of one machine, numbers of GPUs that a machine has."""

    name: str
    memory: int
    link: float = 0.0
    machines: tuple[int, ...] = (1, 2, 4, 8)
    source: str = ""


@cache
def gpus() -> dict[str, Gpu]:
    """All known GPUs, by name."""
    rows = tomllib.loads((Path(__file__).parent / "gpus.toml").read_text(encoding="utf-8"))
    return {name: Gpu(name, row["mib"] * MIB, row["link"], tuple(row["machines"]), row["source"]) for name, row in rows.items()}


def find_gpu(name: str) -> Gpu:
    """A GPU by name: case, hyphens and a maker's name do not matter; a size is only needed where there are several.

    Raises ``ScaffoldError`` with the nearest names where there is none, or more than one.
    """
    wanted = key(name)
    exact = [g for g in gpus().values() if key(g.name) == wanted]
    found = exact or [g for g in gpus().values() if key(g.name).startswith(wanted)] or [g for g in gpus().values() if wanted.startswith(key(g.name))]
    if len(found) == 1:
        return found[0]
    near = [g.name for g in found] or [n for n in gpus() if key(n) in difflib.get_close_matches(wanted, [key(n) for n in gpus()], 3, 0.4)] or list(gpus())
    what = "is several GPUs" if found else "is no GPU that scaffold knows"
    raise ScaffoldError(f"--gpu {name} {what}: {', '.join(near)}; for another, give --gpu-memory 24GiB")


def key(name: str) -> str:
    """What remains of a GPU's name where case, hyphens and a maker's name do not matter."""
    plain = "".join(c for c in name.lower() if c.isalnum())
    return plain.removeprefix("nvidia").removeprefix("geforce").removeprefix("amd")
