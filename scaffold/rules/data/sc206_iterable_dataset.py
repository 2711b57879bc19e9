"""Divide a stream: each rank takes every N-th sample of an ``IterableDataset``.

A stream takes no sampler, so every rank would read all of it. The wrapper hands each rank its sample out of every group of N and drops
an incomplete last group, so that all ranks have the same number of batches. Sharding by DataLoader workers inside the dataset stays as it is.

Before::

    loader = DataLoader(stream, batch_size=32)

After::

    loader = DataLoader(RankShard(stream), batch_size=32)

Reference: https://docs.pytorch.org/docs/stable/data.html#iterable-style-datasets
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.evaluation import dataset_argument, is_iterable_style
from scaffold.roles.facts import Loader
from scaffold.rules import Diagnostic
from scaffold.source.edits import Author
from scaffold.source.tree import Source

ID = "SC206"
NAME = "iterable-dataset"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Wrap the stream that a training loader reads."""
    done: set[cst.CSTNode] = set()
    for loader in plan.train_loaders:
        if loader.node in done or not _streams(loader):
            continue
        done.add(loader.node)
        arg = dataset_argument(loader)
        if arg is None:
            yield Diagnostic.at(
                ID, "error", loader.source, loader.node, "the stream that this loader reads was not found among its arguments, so every rank would read all of it",
                "pass the dataset as the first argument of DataLoader",
            )  # fmt: skip
            continue
        author.wrap(loader.source, arg.value, f"{_rank_shard(plan, author, loader.source)}(", ")")


def _streams(loader: Loader) -> bool:
    dataset = loader.inst.kwargs.get("dataset", loader.inst.args[0] if loader.inst.args else None)
    return dataset is not None and any(is_iterable_style(i) for i in dataset.insts())


def _rank_shard(plan: Plan, author: Author, source: Source) -> str:
    name = plan.free(source, "RankShard")
    dist = plan.dist(author, source)
    author.need(source, "from torch.utils.data import IterableDataset")
    author.helper(
        source,
        name,
        f'''class {name}(IterableDataset):
    """This rank's sample out of every world_size samples of a stream."""

    def __init__(self, dataset):
        self.dataset = dataset
        self.rank, self.world_size = {dist}.get_rank(), {dist}.get_world_size()

    def __iter__(self):
        stream = iter(self.dataset)
        for samples in zip(*[stream] * self.world_size):  # an incomplete last group is dropped
            yield samples[self.rank]

    def __len__(self):
        return len(self.dataset) // self.world_size
''',
    )
    return name
