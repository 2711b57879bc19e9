"""One learning rate, one optimizer, one set of weights.

DDP averages gradients, not parameters: a rate or a change of weights that follows the rank makes the copies drift apart.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.code import own
from scaffold.check.finding import Finding
from scaffold.check.reading import Reading

ID = "SC301"
NAME = "alike"
_IN_PLACE = {"mul_", "add_", "copy_", "normal_", "uniform_", "fill_", "sub_", "div_"}


def check(reading: Reading) -> Iterator[Finding]:
    """Optimizers and weights made from the rank."""
    if not reading.program.calls("DistributedDataParallel"):
        return
    for called in reading.program.calls(*sorted(kinds.OPTIMIZERS)):
        given = [k.value for k in called.call.keywords if k.arg != "params"] + called.call.args[1:]
        if any(reading.values.differs(called.code, a) for a in given):
            yield reading.at(ID, "error", called.code, called.call, "the optimizer's settings follow the rank: the copies of the model drift apart", "give all ranks the same settings")
    for called in reading.program.calls(*_IN_PLACE):
        func = called.call.func
        if isinstance(func, ast.Attribute) and "data" in {n.attr for n in own(func.value) if isinstance(n, ast.Attribute)} and any(reading.values.differs(called.code, a) for a in called.call.args):
            yield reading.at(ID, "error", called.code, called.call, "weights are changed by an amount that follows the rank: the copies of the model differ", "change them alike on every rank")
