"""Give a loss over the pairs of a batch the whole batch.

A contrastive or triplet-mining loss compares every sample with the others of its batch. On a rank's share it has fewer negatives: another
objective, not a rounding difference. The loss's inputs are gathered from all ranks, with gradients: plain ``dist.all_gather`` would cut them
off, ``torch.distributed.nn.functional.all_gather`` adds up what each rank's copy of the loss sends back, and DDP's average over ranks makes
that the single process's gradient.

Before::

    loss = nt_xent(encoder(a), encoder(b), temperature)

After::

    loss = nt_xent(all_gather(ddp_encoder(a)), all_gather(ddp_encoder(b)), temperature)

Where the comparison is written into the loop or the model, or counts on the batch size of the settings, it must first become a function of
its inputs alone: an error says so.

Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.nn.functional.all_gather
"""

from __future__ import annotations

from collections.abc import Iterable

from scaffold.plan import Plan
from scaffold.rules import Diagnostic
from scaffold.source.edits import Author
from scaffold.source.tree import Source

ID = "SC316"
NAME = "in-batch-loss"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Gather what each in-batch loss is given."""
    for loss in plan.losses.in_batch:
        if loss.reason:
            yield Diagnostic.at(
                ID, "error", loss.source, loss.node,
                f"the loss compares the samples of a batch with each other; on a rank's share of the batch it is another loss, and {loss.reason}",
                "compute it in a function of the features (and labels) alone, called from the training loop, that takes the batch size from them",
            )  # fmt: skip
        for argument in loss.arguments:
            author.call(loss.source, argument.value, _all_gather(plan, author, loss.source))


def _all_gather(plan: Plan, author: Author, source: Source) -> str:
    name = plan.free(source, "all_gather")
    torch = plan.torch(author, source)
    author.need(source, "import torch.distributed.nn.functional")
    author.helper(
        source,
        name,
        f'''def {name}(share):
    """The ranks' shares of a batch (N, ...) put together, (world size * N, ...), with gradients."""
    return {torch}.cat({torch}.distributed.nn.functional.all_gather(share))
''',
    )
    return name
