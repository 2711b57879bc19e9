"""What the user asked for on the command line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Choices of ``scaffold convert``.

    ``strategy``: ``ddp`` keeps the whole model on each GPU, ``fsdp2`` divides it.
    ``batch``: the script's batch size is ``per-gpu`` or ``global``. ``scale_lr``: ``none``, ``linear`` or ``sqrt`` in the world size.
    ``evaluation``: ``shard`` where the sums are understood, or ``replicate`` everywhere. ``backend``: None chooses NCCL for CUDA, Gloo else.
    For ``fsdp2``: ``replicas`` copies of the model, each divided among the ranks of one machine (HSDP); ``cpu_offload`` keeps shards in
    the host's memory; ``activation_checkpointing`` computes the blocks' activations again in backward.
    """

    strategy: str = "ddp"
    batch: str = "per-gpu"
    scale_lr: str = "none"
    sync_batchnorm: bool = False
    evaluation: str = "shard"
    backend: str | None = None
    partial: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    replicas: int = 1
    cpu_offload: bool = False
    activation_checkpointing: bool = False

    @property
    def divides_evaluation(self) -> bool:
        """Whether ranks may read unequal shares of evaluation data: not where each forward needs all ranks."""
        return self.evaluation == "shard" and self.strategy == "ddp"

    def enabled(self, rule: str) -> bool:
        """Whether a rule may act."""
        if any(rule.startswith(x) for x in self.ignore):
            return False
        return not self.select or any(rule.startswith(x) for x in self.select)
