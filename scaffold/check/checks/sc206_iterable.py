"""A stream is divided among the ranks.

A DataLoader gives an ``IterableDataset`` no sampler: a stream that does not ask for its rank comes whole to every rank.
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.code import argument
from scaffold.check.finding import Finding
from scaffold.check.reading import Reading

ID = "SC206"
NAME = "iterable-dataset"
_DIVIDES = re.compile(r"rank|world|replica|split_by_node|num_parts|distributed|dist\.", re.I)


def check(reading: Reading) -> Iterator[Finding]:
    """Streams of training loaders whose class has no word of ranks."""
    for held in reading.loops.training_loaders:
        call, code = held.node, held.code
        data = argument(call, "dataset", 0) if isinstance(call, ast.Call) else None
        if code is None or call is None or data is None or reading.values.differs(code, data):
            continue
        for made in reading.values.all(code, data, kinds.INSTANCE):
            if not isinstance(made.node, ast.ClassDef) or made.code is None:
                continue
            classes = [c for _, c in reading.program.base(made.code, made.node)]
            streams = any("IterableDataset" in ast.unparse(b) for c in classes for b in c.bases)
            if streams and not any(_DIVIDES.search(ast.unparse(c)) for c in classes):
                yield reading.at(ID, "error", code, call, f"{made.node.name} gives every rank the whole stream", "take every N-th sample: itertools.islice(stream, rank, None, world_size), worker by worker")
