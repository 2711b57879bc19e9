"""What the user asked for on the command line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Choices of ``scaffold convert``.

    ``batch``: the script's batch size is ``per-gpu`` or ``global``. ``scale_lr``: ``none``, ``linear`` or ``sqrt`` in the world size.
    ``evaluation``: ``shard`` where the sums are understood, or ``replicate`` everywhere. ``backend``: None chooses NCCL for CUDA, Gloo else.
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

    def enabled(self, rule: str) -> bool:
        """Whether a rule may act."""
        if any(rule.startswith(x) for x in self.ignore):
            return False
        return not self.select or any(rule.startswith(x) for x in self.select)
