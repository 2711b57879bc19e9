"""A checkpoint is loaded onto each rank's own device, after it was written.

Without ``map_location`` tensors come back to the GPU they were saved from: all ranks fill the first one.
https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html#save-and-load-checkpoints
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.code import Code, argument, own_of, tail
from scaffold.check.effects import on_all_ranks
from scaffold.check.finding import Finding
from scaffold.check.flow import body_of, read
from scaffold.check.reading import Reading

ID = "SC612"
NAME = "load"


def check(reading: Reading) -> Iterator[Finding]:
    """Loads onto the first GPU, and reads of what another rank may still be writing."""
    cuda = any(".cuda" in c.text or "cuda:" in c.text or "nccl" in c.text for c in reading.program.codes)
    for called in on_all_ranks(reading, "load"):
        code, call = called
        if code.dotted(call.func) != "torch.load":
            continue
        if cuda and argument(call, "map_location", 1) is None and not any(k.arg is None for k in call.keywords) and _restores(code, call):
            yield reading.at(ID, "warning", code, call, "every rank loads onto the GPU that the tensors were saved from, the first one", 'pass map_location="cpu", or the rank\'s device')
        saved = _written_just_before(reading, code, call)
        if saved is not None:
            yield reading.at(ID, "error", code, call, f"ranks read this file while rank 0 may still write it (line {saved.lineno})", "put a barrier between the save and the load")


def _restores(code: Code, call: ast.Call) -> bool:
    return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "load_state_dict" for n in own_of(body_of(code, call)))


def _written_just_before(reading: Reading, code: Code, load: ast.Call) -> ast.Call | None:
    path = argument(load, "f", 0)
    calls = sorted((n for n in own_of(body_of(code, load)) if isinstance(n, ast.Call) and n.lineno < load.lineno), key=lambda n: -n.lineno)
    for call in calls:
        if tail(code.dotted(call.func)) in kinds.COLLECTIVES:
            return None
        if code.dotted(call.func) == "torch.save" and reading.places.guard(code, call, calls=False) is not None and path is not None:
            other = argument(call, "f", 1)
            if other is not None and (ast.dump(other) == ast.dump(path) or (read(other) & read(path) and ast.unparse(other) == ast.unparse(path))):
                return call
    return None
