"""A shuffling sampler is told the epoch.

Without ``set_epoch`` a DistributedSampler gives the same order in every epoch.
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.code import Code, argument
from scaffold.check.finding import Finding
from scaffold.check.loops import AnyLoop
from scaffold.check.reading import Reading
from scaffold.check.shares import samplers

ID = "SC203"
NAME = "set-epoch"


def check(reading: Reading) -> Iterator[Finding]:
    """Samplers of training loaders that are read in several epochs and never told which."""
    told: set[ast.AST] = set()
    unknown = False
    for called in reading.program.calls("set_epoch"):
        if not isinstance(called.call.func, ast.Attribute):
            continue
        given = reading.values.of(called.code, called.call.func.value)
        direct = {h.node for h in given if h.kind == kinds.SAMPLER and h.node is not None}
        loaders = [h for h in given if h.kind == kinds.LOADER]
        told |= direct
        for loader in loaders:
            told |= set(samplers(reading, loader))
        unknown |= not direct and not loaders
        if direct and called.call.args and _never_changes(called.code, called.call):
            yield reading.at(ID, "error", called.code, called.call, "set_epoch is given the same number every time: the order never changes", "give it the number of the epoch")
    if unknown:
        return
    reported: set[ast.AST] = set()
    for held, (code, loop) in reading.loops.training_loaders.items():
        for sampler in samplers(reading, held):
            if sampler in told or sampler in reported or _unshuffled(sampler) or not _repeats(reading, code, loop):
                continue
            reported.add(sampler)
            yield reading.at(
                ID, "error", held.code or code, sampler, "the sampler is never told the epoch: it gives the same order in every one",
                "call its set_epoch(epoch) at the top of the epoch loop",
            )  # fmt: skip


def _unshuffled(sampler: ast.Call) -> bool:
    shuffle = argument(sampler, "shuffle", 3)
    return isinstance(shuffle, ast.Constant) and shuffle.value is False


def _repeats(reading: Reading, code: Code, loop: AnyLoop, depth: int = 4) -> bool:
    """Whether a loop is run again and again: it stands in one, or its function is called in one."""
    if isinstance(loop, ast.While) or code.loops_of(loop):
        return True
    return _called_in_loop(reading, code, loop, depth)


def _called_in_loop(reading: Reading, code: Code, node: ast.AST, depth: int) -> bool:
    function = code.function(node)
    if function is None or not depth:
        return False
    return any(called.code.loops_of(called.call) or _called_in_loop(reading, called.code, called.call, depth - 1) for called in reading.program.callers.get(function, []))


def _never_changes(code: Code, call: ast.Call) -> bool:
    return isinstance(call.args[0], ast.Constant) and bool(code.loops_of(call))
