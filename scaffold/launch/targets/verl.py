"""verl: a Ray application for reinforcement-learning recipes, not a launcher for other scripts.

Reference: https://verl.readthedocs.io/en/latest/start/multinode.html
"""

from __future__ import annotations

import re
from pathlib import Path

from scaffold.errors import ScaffoldError
from scaffold.launch.job import Job

_RECIPE = re.compile(r"^\s*(?:from|import)\s+verl\b", re.M)


def files(job: Job) -> dict[str, str]:
    """A shell script that starts Ray on each machine and the recipe on the first."""
    return {"verl.sh": "verl.sh"}


def start(job: Job, folder: str) -> str:
    """On each machine."""
    where = "" if job.nodes == 1 else f"NODE_RANK=<0 to {job.nodes - 1}> HEAD_ADDR=<first machine> "
    return f"{where}bash {folder}/verl.sh"


def check(job: Job) -> list[str]:
    """Recipes only: what imports verl."""
    script = Path(job.script)
    if not script.is_file() or not _RECIPE.search(script.read_text(encoding="utf-8", errors="replace")):
        raise ScaffoldError(f"--target verl: {job.script} imports no verl; verl runs its own recipes on Ray and starts no other script: use torchrun or ray")
    return []
