"""Checkpoints are saved once, from the bare module.

All ranks that write one path at once leave a torn file. The wrapper's keys begin with ``module.``, which the script for one GPU
does not load. Taken for right: paths that differ by rank, and wrapper's keys that the wrapper itself loads again.
https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html#save-and-load-checkpoints
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.code import Code, argument
from scaffold.check.effects import on_all_ranks, own_path
from scaffold.check.finding import Finding
from scaffold.check.flow import own_sources
from scaffold.check.reading import Reading

ID = "SC611"
NAME = "save-once"


def check(reading: Reading) -> Iterator[Finding]:
    """Saves of all ranks; the wrapper's keys, or the wrapper itself, in a file."""
    for called in on_all_ranks(reading, "save"):
        if called.code.dotted(called.call.func) != "torch.save" or own_path(reading, called.code, argument(called.call, "f", 1)):
            continue
        yield reading.at(ID, "error", called.code, called.call, "every rank writes this file at once: it may be torn, and does not load", "save on rank 0 alone")
    yield from _wrappers(reading)


def _wrappers(reading: Reading) -> Iterator[Finding]:
    strips = any('"module.' in c.text or "'module." in c.text for c in reading.program.codes)
    for called in reading.program.calls("save"):
        code, call = called
        if code.dotted(call.func) != "torch.save" or not call.args:
            continue
        if _is_wrapper(reading, code, call.args[0]):
            yield reading.at(ID, "error", code, call, "the DDP wrapper itself is pickled: the file loads in a process group alone", "save model.module.state_dict()")
            continue
        if strips or _wrapper_loads(reading):
            continue
        for c, node in own_sources(code, call.args[0]):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "state_dict" and _is_wrapper(reading, c, node.func.value):
                yield reading.at(ID, "error", c, node, 'keys of the DDP wrapper are saved: they begin with "module.", which the script for one GPU does not load', "save wrapper.module.state_dict()")
                break


def _is_wrapper(reading: Reading, code: Code, expr: ast.AST) -> bool:
    held = {h.kind for h in reading.values.of(code, expr)} if isinstance(expr, (ast.Name, ast.Attribute)) else set()
    return kinds.DDP in held and kinds.INNER not in held


def _wrapper_loads(reading: Reading) -> bool:
    return any(
        isinstance(called.call.func, ast.Attribute) and _is_wrapper(reading, called.code, called.call.func.value) and _after_wrapping(reading, called.code, called.call)
        for called in reading.program.calls("load_state_dict")
    )


def _after_wrapping(reading: Reading, code: Code, call: ast.Call) -> bool:
    wraps = [w.call.lineno for w in reading.program.calls("DistributedDataParallel") if w.code is code and code.function(w.call) is code.function(call)]
    return not wraps or min(wraps) < call.lineno
