"""DDP if it fits, else FSDP2, else what else would do: LoRA before more hardware, a larger machine before a second one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from scaffold.strategy.catalogue import Gpu, gpus
from scaffold.strategy.memory import ROOM, Estimate, Model, estimate
from scaffold.strategy.regime import Regime
from scaffold.strategy.sizes import show_bytes

ADAPTERS = 0.005
"""Parameters of LoRA adapters, as a share of the model's: a fraction of a percent (arXiv 2106.09685, table 4)."""


@dataclass(frozen=True)
class Setup:
    """Hardware: GPUs in all, on how many machines."""

    gpu: Gpu
    gpus: int
    nodes: int = 1

    def __str__(self) -> str:
        machine = f"{self.gpus // self.nodes} x {self.gpu.name}"
        return machine if self.nodes == 1 else f"{self.nodes} machines of {machine}"


@dataclass(frozen=True)
class Choice:
    """The decision: ``strategy`` is ``ddp``, ``fsdp2`` or ``none``; ``estimates`` by strategy; ``reasons`` are its arithmetic.

    ``checkpointing`` says that activations have to be computed again. ``instead`` are set-ups that would do, ``lora`` what adapters need.
    """

    strategy: str
    setup: Setup
    estimates: tuple[Estimate, ...]
    reasons: tuple[str, ...]
    checkpointing: bool = False
    tight: bool = False
    lora: Estimate | None = None
    instead: tuple[tuple[Setup, Estimate], ...] = ()


def choose(model: Model, regime: Regime, setup: Setup) -> Choice:
    """Decide for one set-up."""
    memory = setup.gpu.memory
    ddp = estimate(model, regime, "ddp", setup.gpus)
    fsdp = estimate(model, regime, "fsdp2", setup.gpus)
    if ddp.fits(memory):
        return Choice("ddp", setup, (ddp, fsdp), (_told(ddp, setup.gpu), "it fits: sharding would only add communication"))
    reasons = [f"{_told(ddp, setup.gpu)}: too much for DDP"]
    if setup.gpus > 1 and fsdp.fits(memory):
        return Choice("fsdp2", setup, (ddp, fsdp), (*reasons, f"{_told(fsdp, setup.gpu)}: it fits"))
    again = estimate(model, regime, "fsdp2", setup.gpus, checkpointing=True)
    if setup.gpus > 1 and model.checkpointed is not None and again.fits(memory):
        return Choice("fsdp2", setup, (ddp, fsdp, again), (*reasons, f"{_told(again, setup.gpu)} with activation checkpointing: it fits"), checkpointing=True)
    tight = fsdp.low <= memory
    how = "leaves no room for activations" if tight and not fsdp.complete else "is too much"
    reasons.append(f"{_told(fsdp, setup.gpu)}: it {how}")
    lora = estimate(replace(model, trainable=round(ADAPTERS * model.parameters)), replace(regime, precision="mixed"), "fsdp2" if setup.gpus > 1 else "ddp", setup.gpus)
    return Choice("none", setup, (ddp, fsdp), tuple(reasons), tight=tight, lora=lora, instead=tuple(_larger(model, regime, setup)))


def _told(found: Estimate, gpu: Gpu) -> str:
    name = "DDP" if found.strategy == "ddp" else f"FSDP2 on {found.gpus} GPUs"
    if found.complete:
        return f"{name}: {show_bytes(found.high)} at most (safe side) of {show_bytes(gpu.memory)} on {gpu.name}"
    return f"{name}: {show_bytes(found.low)} of model state of {show_bytes(gpu.memory)} on {gpu.name}, of which {ROOM:.0%} must stay free for activations"


def _larger(model: Model, regime: Regime, setup: Setup) -> Iterator[tuple[Setup, Estimate]]:
    """The smallest single machine that fits, then the fewest machines of the GPU that was asked for."""
    single = [Setup(gpu, count) for gpu in gpus().values() for count in gpu.machines]
    fitting = [(s, e) for s in single if (e := estimate(model, regime, "fsdp2" if s.gpus > 1 else "ddp", s.gpus)).fits(s.gpu.memory)]
    if fitting:
        yield min(fitting, key=lambda found: (found[0].gpus * found[0].gpu.memory, found[0].gpus))
    most = max(setup.gpu.machines)
    for nodes in range(2, 129):
        wider = Setup(setup.gpu, nodes * most, nodes)
        found = estimate(model, regime, "fsdp2", wider.gpus)
        if found.fits(setup.gpu.memory):
            yield wider, found
            return
