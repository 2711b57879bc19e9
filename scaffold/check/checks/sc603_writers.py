"""One TensorBoard writer, one tracked run.

Taken for right: log folders that differ by rank, and runs of one wandb group.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check.code import argument
from scaffold.check.effects import on_all_ranks, own_path
from scaffold.check.finding import Finding
from scaffold.check.reading import Reading

ID = "SC603"
NAME = "writers"
_INITS = {"wandb.init", "mlflow.start_run", "mlflow.set_experiment", "swanlab.init", "neptune.init_run", "trackio.init", "clearml.Task.init", "aim.Run"}


def check(reading: Reading) -> Iterator[Finding]:
    """Writers and runs that every rank opens."""
    for called in on_all_ranks(reading, "SummaryWriter"):
        if not own_path(reading, called.code, argument(called.call, "log_dir", 0)):
            yield reading.at(ID, "error", called.code, called.call, "every rank opens a TensorBoard writer on one folder: its curves are drawn once for each rank", "open it on rank 0 alone")
    for called in on_all_ranks(reading, "init", "start_run", "init_run", "Run"):
        given = {k.arg for k in called.call.keywords}
        dotted = called.code.dotted(called.call.func)
        if dotted in _INITS and not given & {"group", "mode"} and not any(reading.values.differs(called.code, k.value) for k in called.call.keywords):
            yield reading.at(ID, "error", called.code, called.call, f"every rank starts a tracked run of its own ({ast.unparse(called.call.func)})", "start it on rank 0 alone, and log there")
