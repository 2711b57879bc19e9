"""Tell that batch normalisation sees each GPU's own batch, and take it over all of them if ``--sync-batchnorm`` asks for it.

Each rank normalises with the mean and variance of its own share, so small batches per GPU are noisier than one big one. ``SyncBatchNorm``
exchanges the statistics in every forward: the same training as one process with the whole batch, at the price of more communication. It
needs GPUs.

Before::

    ddp_model = DDP(model)

After::

    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    ddp_model = DDP(model)

Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html
"""

from __future__ import annotations

from collections.abc import Iterable

from scaffold.plan import Plan
from scaffold.plan.sync import Sync
from scaffold.rules import Diagnostic
from scaffold.source.edits import AFTER, Author

ID = "SC308"
NAME = "sync-batchnorm"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Convert the layers before the wrapper is put around them, or say what they do."""
    for sync in plan.syncs:
        model = next((m for m in sync.models if plan.facts.has_batch_norm(m.inst)), None)
        source, call = (model.inst.source, model.inst.call) if model else (None, None)
        if model is None or source is None or call is None:
            continue
        if not plan.options.sync_batchnorm:
            yield Diagnostic.at(
                ID, "note", source, call, "BatchNorm takes its statistics over each GPU's own batch, and evaluation uses rank 0's", "--sync-batchnorm takes them over all GPUs"
            )
        elif plan.device == "cpu" or sync.mode != "ddp":
            why = "SyncBatchNorm needs GPUs, and the script trains on the CPU" if plan.device == "cpu" else f"this model is not wrapped ({sync.reason})"
            yield Diagnostic.at(ID, "error", source, call, f"--sync-batchnorm: {why}", "leave it out")
        else:
            _convert(plan, author, sync)


def _convert(plan: Plan, author: Author, sync: Sync) -> None:
    source, anchor, storage = sync.anchor_source, sync.anchor, sync.storage
    assert source is not None and anchor is not None and storage is not None
    name = f"self.{storage.name}" if storage.kind == "attr" else storage.name
    torch = plan.torch(author, source)
    line = f"{name} = {torch}.nn.SyncBatchNorm.convert_sync_batchnorm({name})"
    author.after(source, anchor, line if plan.device == "cuda" else f"if {torch}.cuda.is_available():\n    {line}", AFTER)
