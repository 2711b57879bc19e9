"""Every trained model is wrapped, once, and last.

A model that is not wrapped by DDP (or sharded) trains alone on each rank: the copies drift apart and nothing says so. The move
to the device comes before the wrapper, and so does the conversion to SyncBatchNorm.
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.code import Code, own_of, tail
from scaffold.check.finding import Finding
from scaffold.check.flow import body_of, read, text_of
from scaffold.check.reading import Reading

ID = "SC301"
NAME = "wrap-model"


def check(reading: Reading) -> Iterator[Finding]:
    """Trained without a wrapper; wrapped before the move; a wrapper within a wrapper."""
    program = reading.program
    if reading.starts and not reading.wraps and program.trains and not reading.averages and not program.calls("parallelize_module", "distribute_module", "register_comm_hook"):
        called = program.trains[0]
        yield reading.at(
            ID, "error", called.code, called.call, "gradients are never averaged: no model is wrapped by DDP or sharded, so that each rank trains a model of its own",
            "wrap the model: DistributedDataParallel(model), and call the wrapper in training",
        )  # fmt: skip
    yield from _left_out(reading)
    for called in program.calls("DataParallel"):
        if program.distributed and called.code.dotted(called.call.func).endswith("DataParallel") and not _instead_of_ddp(called.code, called.call):
            yield reading.at("SC311", "error", called.code, called.call, "nn.DataParallel in a program of one process per GPU: each process spreads its batch over all GPUs", "remove it; DDP takes its place")
    for called in program.calls("DistributedDataParallel"):
        code, call = called
        name = next((text_of(t) for t in _targets(code.statement(call))), "")
        if not name:
            continue
        for node in own_of(body_of(code, call)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"to", "cuda"} and node.lineno > call.lineno and text_of(node.func.value) == name and not code.apart(call, node):
                yield reading.at(ID, "error", code, node, "the model is moved after DDP wrapped it: DDP keeps the parameters it saw on the old device", "move the model first, then wrap it")
            if isinstance(node, ast.Call) and tail(code.dotted(node.func)) == "convert_sync_batchnorm" and node.lineno > call.lineno and node.args and read(node.args[0]) & {name, f"{name}.module"}:
                yield reading.at("SC308", "error", code, node, "BatchNorm layers are replaced after DDP wrapped the model", "convert_sync_batchnorm first, then DDP")


def _left_out(reading: Reading) -> Iterator[Finding]:
    """Modules that an optimizer trains beside a wrapped one."""
    program = reading.program
    if not reading.wraps or reading.averages or program.calls("register_comm_hook", "parallelize_module", "fully_shard", "FullyShardedDataParallel"):
        return
    wrapped = {(h.kind, h.node) for h in reading.values.wrapped}
    for optimizer in program.calls(*sorted(kinds.OPTIMIZERS)):
        code = optimizer.code
        for node in (n for a in optimizer.call.args[:1] for n in ast.walk(a)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "parameters" and isinstance(node.func.value, (ast.Name, ast.Attribute))):
                continue
            held = reading.values.of(code, node.func.value)
            made = {(h.kind, h.node) for h in held if h.kind == kinds.MADE}
            if made and made == {(h.kind, h.node) for h in held if h.kind != kinds.INSTANCE} and not made & wrapped and not isinstance(node.func.value, ast.Attribute):
                yield reading.at(ID, "error", code, optimizer.call, f"{ast.unparse(node.func.value)} is trained and not wrapped, though another model is: each rank trains one of its own", "wrap it in DistributedDataParallel too")


def _targets(statement: ast.stmt) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else []


def _instead_of_ddp(code: Code, call: ast.Call) -> bool:
    """A branch beside the one with DDP, for runs without torchrun."""
    return any(isinstance(a, ast.If) for a in code.ancestors(call))
