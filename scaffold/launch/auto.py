"""Which target this machine suggests."""

from __future__ import annotations

import os
import shutil

_SIGNS = (("slurm", "sbatch"), ("nodus", "nodus"), ("skypilot", "sky"), ("dstack", "dstack"), ("kubernetes", "kubectl"))


def suggested() -> tuple[str, str]:
    """A target, and the sign that spoke for it."""
    if "SLURM_JOB_ID" in os.environ or "SLURM_CONF" in os.environ:
        return "slurm", "this is a Slurm job or cluster"
    for target, program in _SIGNS:
        if shutil.which(program):
            return target, f"{program} is installed here"
    return "torchrun", "no scheduler was found here"
