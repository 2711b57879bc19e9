"""Each process uses the GPU of its local rank.

``cuda:0``, ``.cuda(0)`` or ``device_ids=[0]`` put every process on the first GPU, and so does a bare ``.cuda()`` or ``"cuda"``
when no ``torch.cuda.set_device`` came before. The global rank is no device index on a second machine.
https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.code import Code, argument, tail
from scaffold.check.finding import Finding
from scaffold.check.reading import Reading

ID = "SC401"
NAME = "device-index"


def check(reading: Reading) -> Iterator[Finding]:
    """Devices with a fixed number, and devices without one where none was set."""
    program = reading.program
    if not reading.program.distributed or not (reading.starts or reading.wraps):
        return
    placed = bool(program.calls("set_device", "set_device_index", "set_device_idx")) or any("CUDA_VISIBLE_DEVICES" in c.text for c in program.codes)
    bare: tuple[Code, ast.AST] | None = None
    for code in program.codes:
        for node in code.nodes:
            if isinstance(node, ast.Call):
                wrong = _fixed(reading, code, node)
                if wrong and not reading.alone(code, node):
                    yield reading.at(ID, "error", code, node, f"{wrong} is the first GPU in every process", 'use the local rank: torch.device("cuda", int(os.environ["LOCAL_RANK"]))')
                if bare is None and _bare(code, node):
                    bare = code, node
    if bare is not None and not placed and not _indexed(reading):
        yield reading.at(ID, "error", *bare, "no process chooses its GPU: all of them use the first one", "call torch.cuda.set_device(local_rank) before the first use of CUDA")


def _fixed(reading: Reading, code: Code, call: ast.Call) -> str:
    name = code.called(call)
    if name in {"to", "device", "set_default_device"} and call.args and _is_first(call.args[0]):
        return repr(call.args[0].value) if isinstance(call.args[0], ast.Constant) else "cuda:0"
    if name == "device" and len(call.args) > 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value == "cuda" and _number(call.args[1]):
        return f"cuda:{ast.unparse(call.args[1])}"
    if name in {"cuda", "set_device"} and call.args and _number(call.args[0]) and isinstance(call.func, ast.Attribute):
        return f"{name}({ast.unparse(call.args[0])})"
    ids = argument(call, "device_ids", 1) if name == "DistributedDataParallel" else None
    if isinstance(ids, ast.List) and len(ids.elts) == 1 and _number(ids.elts[0]):
        return f"device_ids={ast.unparse(ids)}"
    return ""


def _is_first(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Constant) and isinstance(expr.value, str) and expr.value.startswith("cuda:")


def _number(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Constant) and isinstance(expr.value, int) and not isinstance(expr.value, bool)


def _bare(code: Code, call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else tail(code.dotted(call.func))
    if name == "cuda" and not call.args and not call.keywords:
        return True
    return name in {"to", "device"} and bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value == "cuda" and len(call.args) == 1


def _indexed(reading: Reading) -> bool:
    """Somewhere a device is made from the local rank."""
    for called in reading.program.calls("device", "to", "cuda"):
        if any(reading.values.has(called.code, a, kinds.RANK, kinds.LOCAL_RANK, kinds.RANKED) for a in called.call.args):
            return True
    return False
