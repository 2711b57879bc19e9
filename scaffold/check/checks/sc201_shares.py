"""Each rank trains on its own share of the data.

Without a sampler that knows the rank every process reads the whole data set: N processes do one process's work. ``shuffle=``
beside ``sampler=`` raises. A sampler with fixed numbers for the rank gives all ranks one share. Taken for right: a data set or
sampler that is made from the rank, iterable data sets, samplers and batch samplers of unknown origin.
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check.code import Code, argument, is_none, tail
from scaffold.check.finding import Finding
from scaffold.check.reading import Reading
from scaffold.check.shares import Share, samplers, share

ID = "SC201"
NAME = "distributed-sampler"


def check(reading: Reading) -> Iterator[Finding]:
    """Training loaders that give every rank everything, and samplers that are given wrongly."""
    for held, (where, loop) in reading.loops.training_loaders.items():
        call, code = held.node, held.code
        if not isinstance(call, ast.Call) or code is None:
            continue
        others = [o for o in reading.loops.loaders(where, loop) if o != held]
        if share(reading, held) is Share.WHOLE and not any(share(reading, o) is Share.PART for o in others):
            yield reading.at(
                ID, "error", code, call, "every rank trains on all of the data: the loader has no sampler that gives each rank a share",
                "pass sampler=DistributedSampler(dataset), without shuffle=, and call its set_epoch every epoch",
            )  # fmt: skip
    for called in reading.program.calls("DataLoader"):
        sampler = argument(called.call, "sampler")
        shuffle = argument(called.call, "shuffle", 2)
        if sampler is not None and isinstance(shuffle, ast.Constant) and shuffle.value is True and not is_none(sampler) and not _conditional(called.code, sampler):
            yield reading.at(
                ID, "error", called.code, called.call, "sampler= and shuffle=True are given together: DataLoader raises a ValueError",
                "leave shuffle= out; the sampler shuffles",
            )  # fmt: skip
    yield from _samplers(reading)


def _samplers(reading: Reading) -> Iterator[Finding]:
    trained = {s for held in reading.loops.training_loaders for s in samplers(reading, held)}
    for called in reading.program.calls("DistributedSampler"):
        rank = argument(called.call, "rank", 2)
        if isinstance(rank, ast.Constant) and isinstance(rank.value, int):
            yield reading.at(ID, "error", called.code, called.call, f"the sampler is always that of rank {rank.value}: all ranks read the same share", "leave rank= out; the sampler asks for it")
        seed = argument(called.call, "seed", 4)
        if seed is not None and reading.values.differs(called.code, seed):
            yield reading.at(ID, "error", called.code, called.call, "the sampler's seed differs by rank: shares overlap, and samples are left out", "give all ranks one seed")
        shuffle = argument(called.call, "shuffle", 3)
        if called.call in trained and isinstance(shuffle, ast.Constant) and shuffle.value is False:
            yield reading.at(ID, "warning", called.code, called.call, "the training data are never shuffled: shuffle=False", "leave shuffle= out, unless the order is meant")


def _conditional(code: Code, sampler: ast.expr) -> bool:
    """A sampler that is ``None`` in one process is given beside ``shuffle=True`` by mistake as well, but not always."""
    return isinstance(sampler, ast.IfExp) or tail(code.dotted(sampler)) == ""
