"""Keep the user's own sampling: each rank takes its share of the same draw.

Replacing a ``WeightedRandomSampler`` or a sampler class of the script by a plain ``DistributedSampler`` would change what is trained on;
leaving it as it is gives every rank all of the draw. Rank 0 draws for all, and each rank takes every N-th index, so the sequence of global
batches is the original's.

Before::

    loader = DataLoader(train_set, batch_size=32, sampler=balanced)

After::

    loader = DataLoader(train_set, batch_size=32, sampler=RankSampler(balanced))

Reference: https://docs.pytorch.org/docs/stable/data.html#data-loading-order-and-sampler
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.roles.facts import Loader
from scaffold.rules import Diagnostic
from scaffold.rules.common import keyword
from scaffold.rules.data.sc201_distributed_sampler import argument_at, needs_sampler
from scaffold.source.edits import Author
from scaffold.source.tree import Source

ID = "SC205"
NAME = "user-sampler"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Wrap the sampler (or batch sampler) that a training loader was given."""
    done: set[cst.CSTNode] = set()
    for loader in plan.train_loaders:
        if loader.node in done or needs_sampler(loader):
            continue
        done.add(loader.node)
        arg = _sampler(loader)
        if arg is None:
            if {"sampler", "batch_sampler"} & loader.inst.kwargs.keys():
                yield Diagnostic.at(
                    ID, "error", loader.source, loader.node, "the sampler of this training loader comes from a dictionary, so every rank would draw all of it",
                    "pass sampler= in the call itself",
                )  # fmt: skip
            continue
        source = loader.source
        inner = arg.value
        if isinstance(inner, cst.Call) and inner.args and source.code(inner.func).endswith("BatchSampler"):
            inner = inner.args[0].value
        author.wrap(source, inner, f"{rank_sampler(plan, author, source)}(", ")")


def _sampler(loader: Loader) -> cst.Arg | None:
    for name in ("batch_sampler", "sampler"):
        arg = keyword(loader.node, name) or argument_at(loader, name)
        if arg is not None and loader.source.code(arg.value) != "None":
            return arg
    return None


def rank_sampler(plan: Plan, author: Author, source: Source) -> str:
    """Name of the generated sampler class."""
    name = plan.free(source, "RankSampler")
    dist = plan.dist(author, source)
    author.need(source, "from torch.utils.data import Sampler")
    author.helper(
        source,
        name,
        f'''class {name}(Sampler):
    """This rank's share of what another sampler draws; rank 0 draws for all."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        drawn = [list(self.sampler)]
        {dist}.broadcast_object_list(drawn, src=0)
        indices, world_size = drawn[0], {dist}.get_world_size()
        indices += indices[: -len(indices) % world_size]  # equal shares
        return iter(indices[{dist}.get_rank() :: world_size])

    def __len__(self):
        return -(-len(self.sampler) // {dist}.get_world_size())
''',
    )
    return name
