"""Each rank has noise of its own.

With one seed for all ranks dropout masks and augmentation are the same on each: less noise than in one process. Many programs
accept it: this is a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from scaffold.check.finding import Finding
from scaffold.check.reading import Reading

ID = "SC209"
NAME = "rank-seed"
_SEEDS = ("manual_seed", "seed_everything", "set_seed", "setup_seed", "manual_seed_all")
_NOISE = re.compile(r"Dropout\(|F\.dropout\(|dropout=|torch\.randn_like\(|RandomCrop|RandomHorizontalFlip|RandomResizedCrop|ColorJitter|RandomErasing|bernoulli")


def check(reading: Reading) -> Iterator[Finding]:
    """A program with dropout or augmentation whose seeds are all alike."""
    if not reading.together:
        return
    seeds = [c for c in reading.program.calls(*_SEEDS) if c.code.dotted(c.call.func) in {"torch.manual_seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all"} or c.call.func.__class__.__name__ == "Name"]
    every = reading.program.calls("manual_seed", "seed", *_SEEDS)
    if not seeds or any(reading.values.differs(c.code, a) for c in every for a in c.call.args):
        return
    if any(_NOISE.search(c.text) for c in reading.program.codes):
        last = seeds[-1]
        yield reading.at(ID, "note", last.code, last.call, "all ranks have one seed: their dropout masks and augmentation are the same", "torch.manual_seed(seed + rank) once the model is built and the data is split")
