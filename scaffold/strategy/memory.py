"""Bytes per GPU, line by line, each with its formula and source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scaffold.strategy.regime import Regime
from scaffold.strategy.sizes import MIB

CONTEXT = 500 * MIB
"""CUDA context and loaded kernels: about 0.3 GB on current CUDA, more with libraries in use."""

NCCL = 600 * MIB
"""NCCL's buffers: 544–688 MiB per group were seen on A100 (NVIDIA/nccl issue 964)."""

BUCKET = 25 * MIB
"""DDP's default bucket (``bucket_cap_mb``)."""

FRAGMENTED = 0.10
"""Share of what is allocated that the caching allocator may hold beyond it, for the safe side."""

ROOM = 0.20
"""Share of the GPU's memory that must stay free where activations are not known."""


Curve = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Model:
    """What is known of a model. ``largest`` is the number of parameters of its largest block (what FSDP2 gathers at a time), ``None``
    where it is not known.

    ``activations`` are ``(activations, gradients)`` in bytes, at most in the forward of one rank's batch and then in its backward, ``checkpointed`` with the
    blocks' computed again in backward; ``None`` where they are not known.
    """

    parameters: int
    trainable: int | None = None
    buffers: int = 0
    largest: int | None = None
    activations: Curve | None = None
    checkpointed: Curve | None = None

    @property
    def training(self) -> int:
        """Parameters that get gradients."""
        return self.parameters if self.trainable is None else self.trainable


@dataclass(frozen=True)
class Part:
    """A line of an estimate: bytes, and the formula that gave them."""

    name: str
    bytes: int
    formula: str


@dataclass(frozen=True)
class Estimate:
    """Bytes per GPU under one strategy on ``gpus`` GPUs.

    ``state`` is the model state alone (the ZeRO paper's accounting); ``low`` what is surely needed; ``expected`` with context,
    buffers and activations; ``high`` with a margin for the allocator. Only ``high`` decides.
    """

    strategy: str
    gpus: int
    state: int
    parts: tuple[Part, ...]
    complete: bool

    def _sum(self, *names: str) -> int:
        return sum(part.bytes for part in self.parts if not names or part.name in names)

    @property
    def low(self) -> int:
        """State, buffers and averages."""
        return self.state + self._sum("buffers", "averaged copies")

    @property
    def expected(self) -> int:
        """All lines."""
        return self._sum()

    @property
    def high(self) -> int:
        """All lines, and what the allocator may hold beyond them."""
        fixed = self._sum("CUDA context", "NCCL buffers")
        return fixed + round((self.expected - fixed) * (1 + FRAGMENTED))

    def fits(self, memory: int) -> bool:
        """Whether the safe side fits into a GPU of ``memory`` bytes; without known activations, whether state leaves room for them."""
        if self.complete:
            return self.high <= memory
        return self.low <= (1 - ROOM) * memory


def estimate(model: Model, regime: Regime, strategy: str, gpus: int, checkpointing: bool = False) -> Estimate:
    """Bytes per GPU of ``model`` under ``ddp`` or ``fsdp2`` on ``gpus`` GPUs."""
    share = gpus if strategy == "fsdp2" else 1
    over = f" / {gpus} GPUs" if share > 1 else ""

    def part(name: str, count: int, size: float, what: str, divided: bool = True) -> Part:
        by = share if divided else 1
        return Part(name, round(count * size / by), f"{count:,} {what} x {size:g} bytes{over if by > 1 else ''}")

    curve = model.checkpointed if checkpointing else model.activations
    kept, done = _peak(curve, model, regime, share) if curve else (None, 1.0)
    all_gradients = part("gradients", model.training, regime.gradient, "trained parameters")
    some = Part("gradients", round(all_gradients.bytes * done), f"{all_gradients.formula}, {done:.0%} of them there at the peak")
    parts = [
        part("parameters", model.parameters, regime.weight, "parameters"),
        all_gradients if done == 1.0 else some,
        part("master weights", model.training, regime.master, "trained parameters"),
        part("optimizer state", model.training, regime.state, f"trained parameters ({regime.optimizer})"),
        part("averaged copies", model.parameters * regime.averages, regime.weight, "parameters"),
        Part("buffers", model.buffers, "as counted, whole on each GPU"),
    ]
    if strategy == "ddp":
        parts.append(part("16-bit copies", model.parameters, regime.cast, "parameters, autocast's copies of weights", False))
        if gpus > 1:
            parts.append(Part("gradient buckets", model.training * regime.gradient, "DDP keeps a second copy of the gradients in its buckets"))
    elif model.largest is not None:
        block = model.largest
        size = 2 if regime.precision != "fp32" else 4
        parts.append(part("gathered blocks", 2 * block, size, "parameters: the block at work and the one prefetched", False))
        parts.append(part("gradients of a block", block, regime.gradient, "parameters, before they are scattered", False))
    if kept is not None:
        parts.append(Part("activations", kept, f"or what the optimizer takes for a moment: alive at the peak of a simulated step{', blocks computed again' if checkpointing else ''}"))
    parts.append(Part("CUDA context", CONTEXT, "context and kernels of one process"))
    if gpus > 1:
        parts.append(Part("NCCL buffers", NCCL, "one process group"))
    state = round((model.parameters * regime.weight + model.training * (regime.gradient + regime.master + regime.state)) / share)
    return Estimate(strategy, gpus, state, tuple(p for p in parts if p.bytes), kept is not None)


def _peak(curve: Curve, model: Model, regime: Regime, share: int) -> tuple[int, float]:
    """Bytes beside gradients at the instant when they and the gradients together are most, and the share of gradients there by then.

    Peaks of the two are not added: gradients come as activations go, and a step's own memory is taken when these are gone.
    """
    total = max(done for _, done in curve) or 1
    points = [(kept, done / total) for kept, done in curve]
    if regime.keeps == "forward":
        points.append((curve[0][0], 1.0))
    elif regime.keeps == "always":
        points.append((max(kept for kept, _ in curve), 1.0))
    points.append((round(model.training * regime.step / share), 1.0))
    gradients = model.training * regime.gradient / share
    return max(points, key=lambda point: point[0] + point[1] * gradients)
