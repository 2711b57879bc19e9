"""Divide evaluation among the ranks where the sums are exact, else evaluate everything on each rank.

A ``DistributedSampler`` pads, so some samples would count twice; and averages of per-rank averages are wrong when shares differ. Where a
loop leaves only sums and counts over samples behind, each rank takes every N-th sample without padding and the sums are added. In every
other case the loader is left alone: each rank evaluates all of it with the bare module and gets the original's numbers.

Before::

    test_loader = DataLoader(test_set, batch_size=1000)

After::

    test_loader = DataLoader(test_set, batch_size=1000, sampler=range(rank, len(test_set), world_size))

Reference: https://docs.pytorch.org/docs/stable/data.html#data-loading-order-and-sampler
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.evaluation import dataset_argument
from scaffold.rules import Diagnostic
from scaffold.rules.common import keyword
from scaffold.rules.data.naming import name_dataset
from scaffold.source.edits import Author

ID = "SC501"
NAME = "shard-evaluation"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Give each loader that can be divided exactly its rank's samples; say which ones cannot."""
    done: set[cst.CSTNode] = set()
    for loader in plan.eval_loaders:
        if loader.node in done:
            continue
        done.add(loader.node)
        source, call = loader.source, loader.node
        if loader.inst not in plan.sharded:
            if plan.options.strategy == "fsdp2":
                continue  # each forward gathers parameters from all ranks, which therefore read alike
            if plan.options.evaluation == "shard":
                yield Diagnostic.at(
                    ID, "note", source, call, "every rank evaluates all of this data: what the loop computes is not made of sums over samples alone",
                    "nothing; the numbers are the original's, the time does not shrink with more GPUs",
                )  # fmt: skip
            continue
        dataset = dataset_argument(loader)
        assert dataset is not None
        text = f"range({plan.rank(author, source, call)}, len({name_dataset(plan, author, loader, dataset, 'test_set')}), {plan.world_size(author, source, call)})"
        shuffle = keyword(call, "shuffle")
        if shuffle is not None:
            author.splice(source, *source.span(shuffle), f"sampler={text}")
        elif any(a.star == "**" for a in call.args):
            star = next(a for a in call.args if a.star == "**")
            author.splice(source, source.span(star)[0], source.span(star)[0], f"sampler={text}, ")
        else:
            author.add_argument(source, call, f"sampler={text}")
