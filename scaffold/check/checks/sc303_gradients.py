"""The loss goes through the wrapper's forward, once for each backward.

DDP averages gradients only for what its ``forward`` computed. A loss made by ``model.module(...)`` or by another method is not
synchronised, silently; a method called on the wrapper itself does not exist. A second backward through one forward
(``retain_graph=True``) is not reduced either. FSDP2 shards the module in place, so that this does not concern it.
https://docs.pytorch.org/docs/stable/notes/ddp.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.code import Code, own_of
from scaffold.check.finding import Finding
from scaffold.check.flow import body_of, read, sources, text_of
from scaffold.check.reading import Reading

ID = "SC303"
NAME = "average-gradients"
_MODULE = {
    "module", "parameters", "named_parameters", "buffers", "named_buffers", "state_dict", "load_state_dict", "train", "eval", "zero_grad", "no_sync", "to", "cuda", "cpu", "modules",
    "named_modules", "children", "named_children", "apply", "requires_grad_", "forward", "register_comm_hook", "join", "training", "require_backward_grad_sync", "float", "half", "device",
    "device_ids", "register_forward_hook", "register_buffer", "compile", "get_submodule", "get_parameter", "double", "bfloat16", "add_module", "type", "__class__", "_set_static_graph",
    "will_sync_module_buffers", "process_group", "find_unused_parameters", "broadcast_buffers", "static_graph", "register_full_backward_hook", "reducer", "register_module",
    "_get_ddp_logging_data", "_modules", "_parameters", "__dict__", "share_memory", "dim", "is_cuda", "logger",
}  # fmt: skip


def check(reading: Reading) -> Iterator[Finding]:
    """Losses past the wrapper, methods on the wrapper, a second backward."""
    if not reading.program.calls("DistributedDataParallel"):
        return
    for called in reading.program.trains:
        yield from _past_the_wrapper(reading, called.code, called.call)
        kept = next((k.value for k in called.call.keywords if k.arg == "retain_graph"), None)
        if isinstance(kept, ast.Constant) and kept.value is True and _through_ddp(reading, called.code, called.call):
            yield reading.at(
                ID, "error", called.code, called.call, "a second backward through one forward of DDP: its gradients are not averaged among ranks",
                "add the losses up and call backward once, or make a forward for each",
            )  # fmt: skip
    yield from _attributes(reading)


def _past_the_wrapper(reading: Reading, code: Code, call: ast.Call) -> Iterator[Finding]:
    assert isinstance(call.func, ast.Attribute)
    loss = call.func.value
    made = sources(reading.program, code, loss, 2)
    calls = [(c, n) for c, e in made for n in ast.walk(e) if isinstance(n, ast.Call)]
    if any(_is_wrapper_call(reading, c, n) for c, n in calls):
        return
    for c, n in calls:
        if _inner_call(reading, c, n):
            yield reading.at(
                ID, "error", c, n, "the loss does not go through the DDP wrapper's forward: its gradients are never averaged among ranks, and the copies drift apart",
                "call the wrapper itself; move the computation into the model's forward if it is another method",
            )  # fmt: skip
            return


def _is_wrapper_call(reading: Reading, code: Code, call: ast.Call) -> bool:
    if reading.values.has(code, call.func, kinds.DDP, kinds.FSDP):
        return True
    given = [*call.args, *(k.value for k in call.keywords)]
    return any(reading.values.has(code, a, kinds.DDP, kinds.FSDP) for a in given if isinstance(a, (ast.Name, ast.Attribute)))


def _inner_call(reading: Reading, code: Code, call: ast.Call) -> bool:
    if reading.around(code, call.func):
        return True
    return isinstance(call.func, ast.Attribute) and call.func.attr not in (_MODULE - {"forward"}) and reading.around(code, call.func.value)


def _through_ddp(reading: Reading, code: Code, call: ast.Call) -> bool:
    assert isinstance(call.func, ast.Attribute)
    return any(isinstance(n, ast.Call) and _is_wrapper_call(reading, c, n) for c, e in sources(reading.program, code, call.func.value, 1) for n in ast.walk(e))


def _attributes(reading: Reading) -> Iterator[Finding]:
    """``ddp.encode(x)``: the wrapper has no such attribute."""
    for code in reading.program.codes:
        for node in code.nodes:
            if not isinstance(node, ast.Attribute) or node.attr in _MODULE or not isinstance(node.ctx, ast.Load) or node.attr.startswith("__"):
                continue
            held = reading.values.of(code, node.value)
            kinds_held = {h.kind for h in held}
            if kinds.DDP in kinds_held and kinds_held <= {kinds.DDP} and not _rebound_later(reading, code, node):
                yield reading.at(ID, "error", code, node, f"the DDP wrapper has no attribute {node.attr!r}: AttributeError", f"use the module inside it: .module.{node.attr}")


def _rebound_later(reading: Reading, code: Code, node: ast.Attribute) -> bool:
    """A name that held the module itself before it held the wrapper, or that the wrapper is taken off from."""
    name = text_of(node.value)
    for other in own_of(body_of(code, node)):
        if isinstance(other, ast.Assign) and any(text_of(t) == name for t in other.targets) and not reading.values.has(code, other.value, kinds.DDP):
            return True
        if isinstance(other, ast.Call) and text_of(other.func) in {"hasattr", "isinstance", "getattr"} and other.args and name in read(other.args[0]):
            return True
    return False
