"""Checkpoints that are complete or not there: written beside, synced, then renamed."""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict


def save(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, progress: dict[str, Any], keep: int = 2) -> None:
    """Save model, optimizer, ``progress`` and each rank's random state as ``folder/step-N``; keep the last ones."""
    final = folder / f"step-{progress['step']:09d}"
    partial = folder / f".{final.name}.partial"
    if dist.get_rank() == 0:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    dist.barrier()
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=partial)
    torch.save(_random_state(), partial / f"random-{dist.get_rank()}.pt")
    dist.barrier()
    if dist.get_rank() == 0:
        torch.save(progress, partial / "progress.pt")
        for path in [*partial.iterdir(), partial]:
            _sync(path)
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
        _sync(folder)
        for old in complete(folder)[:-keep]:
            shutil.rmtree(old)
    dist.barrier()


def load(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any] | None:
    """Load the newest checkpoint that can be read; its progress, or nothing where there is none. Another number of ranks is fine."""
    found = complete(folder)
    for path in reversed(found):
        try:
            weights, state = get_state_dict(model, optimizer)
            wanted = {"model": weights, "optimizer": state}
            dcp.load(wanted, checkpoint_id=path)
            progress = torch.load(path / "progress.pt", weights_only=True)
        except (Exception, CheckpointException) as error:
            if dist.get_rank() == 0:
                print(f"{path} cannot be read, the one before is taken ({type(error).__name__})", flush=True)
            continue
        set_state_dict(model, optimizer, model_state_dict=wanted["model"], optim_state_dict=wanted["optimizer"])
        mine = path / f"random-{dist.get_rank()}.pt"
        if mine.exists():
            _set_random_state(torch.load(mine, weights_only=False))
        return progress
    if found:
        raise SystemExit(f"no checkpoint in {folder} can be read: move them away to begin anew")
    return None


def complete(folder: Path) -> list[Path]:
    """Complete checkpoints, the oldest first."""
    return sorted(path for path in folder.glob("step-*") if (path / "progress.pt").exists() and (path / ".metadata").exists())


def _random_state() -> dict[str, Any]:
    state = {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()}
    return state | ({"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {})


def _set_random_state(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
