"""Download, unpack and build caches on one process of each machine first.

With an empty cache all processes download and unpack into one folder at once: "Dataset not found or corrupted", half-written archives, only on
a fresh machine. The first process of each machine does it; the others wait, then find everything in place.

Before::

    train_set = datasets.MNIST(root, download=True)

After::

    if local_rank != 0:
        dist.barrier()  # the first process of each machine downloads
    train_set = datasets.MNIST(root, download=True)
    if local_rank == 0:
        dist.barrier()

A bare ``urlretrieve(...)`` or ``archive.extractall()`` is run by the first process alone, with a barrier behind it. ``local_rank``, not ``rank``: each machine has a disk of its own. Hub downloads (``from_pretrained``, ``load_dataset``) lock their cache
themselves and are left alone.

Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.barrier
"""

from __future__ import annotations

from collections.abc import Iterable

from scaffold.plan import Plan
from scaffold.plan.first import fetches, first_blocks
from scaffold.rules import Diagnostic
from scaffold.source.edits import AFTER, SETUP, Author

ID = "SC210"
NAME = "download"
SEVERITY = "C"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Put a pair of barriers around each such block."""
    for block in first_blocks(plan.facts):
        source, first, last = block.source, block.statements[0], block.statements[-1]
        verb = "downloads" if fetches(block.event) else "builds the cache"
        if block.why_not:
            yield Diagnostic.at(
                ID, "warning", block.event.source, block.event.node, f"every process {verb} at once where nothing is cached yet, and {block.why_not}",
                "run it once in one process before the first training, or move it into a statement of its own",
            )  # fmt: skip
            continue
        local_rank, dist = plan.local_rank(author, source, first), plan.dist(author, source)
        if block.once:
            for statement in block.statements:
                author.guard(source, statement, f"{local_rank} == 0")
            author.after(source, last, f"{dist}.barrier()", AFTER)
            continue
        author.before(source, first, f"if {local_rank} != 0:\n    {dist}.barrier()  # the first process of each machine {verb}", SETUP)
        author.after(source, last, f"if {local_rank} == 0:\n    {dist}.barrier()", AFTER)
