"""The device is set before CUDA is used.

``set_device`` after the first use leaves a context, and what was made until then, on the first GPU.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check.code import own_of, tail
from scaffold.check.finding import Finding
from scaffold.check.flow import body_of
from scaffold.check.reading import Reading

ID = "SC403"
NAME = "early-cuda"


def check(reading: Reading) -> Iterator[Finding]:
    """CUDA used on a line before ``set_device`` of the same function."""
    for called in reading.program.calls("set_device"):
        code, call = called
        if code.dotted(call.func) != "torch.cuda.set_device":
            continue
        earlier = [n for n in own_of(body_of(code, call)) if isinstance(n, ast.Call) and n.lineno < call.lineno and _uses(n, tail(code.dotted(n.func)))]
        if earlier and not reading.places.differs(code, earlier[0]):
            first = min(earlier, key=lambda n: n.lineno)
            yield reading.at(ID, "error", code, first, f"CUDA is used before torch.cuda.set_device (line {call.lineno}): this lands on the first GPU in every process", "set the device first")


def _uses(call: ast.Call, name: str) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda" and not call.args:
        return True
    return isinstance(call.func, ast.Attribute) and call.func.attr == "to" and bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value == "cuda" and name != "set_device"
