"""One progress bar: ``disable=rank != 0`` on the others."""

from __future__ import annotations

from collections.abc import Iterator

from scaffold.check.effects import on_all_ranks
from scaffold.check.finding import Finding
from scaffold.check.reading import Reading

ID = "SC602"
NAME = "progress-bars"


def check(reading: Reading) -> Iterator[Finding]:
    """Bars that every rank draws."""
    if not reading.program.trains:
        return
    for called in on_all_ranks(reading, "tqdm", "trange"):
        given = {k.arg for k in called.call.keywords}
        in_training = not called.code.function(called.call) or called.code.function(called.call) in reading.program.entered
        if in_training and not given & {"disable", "position", None} and not any(reading.values.differs(called.code, k.value) for k in called.call.keywords):
            yield reading.at(ID, "warning", called.code, called.call, "every rank draws this progress bar", "pass disable=rank != 0")
