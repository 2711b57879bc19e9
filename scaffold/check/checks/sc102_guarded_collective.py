"""No collective stands where rank 0 alone comes by.

A collective needs every rank. Under ``if rank == 0:`` one rank waits in it for ever, or it pairs with another rank's next
collective and mixes up their values. Gathering a sharded model's state, and a save through ``torch.distributed.checkpoint``,
are collectives too. Taken for right: a barrier under a test of the *local* rank whose other branch or whose other side has one
as well (the first process of a machine goes first), and groups made of some ranks alone (``group=``).
https://docs.pytorch.org/docs/stable/distributed.html#collective-functions
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.code import Code, tail
from scaffold.check.finding import Finding
from scaffold.check.reading import Reading

ID = "SC102"
NAME = "guarded-collective"
_GATHERING = {"get_model_state_dict", "get_state_dict", "get_optimizer_state_dict", "full_tensor", "set_model_state_dict", "set_optimizer_state_dict", "async_save", "optim_state_dict", "full_optim_state_dict"}


def check(reading: Reading) -> Iterator[Finding]:
    """Collectives under a test for rank 0, in functions called there too."""
    program = reading.program
    for called in program.calls(*kinds.COLLECTIVES, *_GATHERING, "save"):
        code, call = called
        if not _is_collective(reading, code, call) or any(k.arg == "group" for k in call.keywords):
            continue
        here = reading.places.guard(code, call, calls=False)
        guard = here or _guarded_call(reading, code, call)
        if guard is None or (tail(code.dotted(call.func)) == "barrier" and here is not None and _has_twin(code, call, here)):
            continue
        name = tail(code.dotted(call.func)) or ast.unparse(call.func)
        where = f"under the test on line {guard.lineno}" if isinstance(guard, ast.expr) else "where rank 0 alone comes by"
        yield reading.at(ID, "error", code, call, f"{name} is a collective {where}: rank 0 waits in it for the others, which never come", "move it out, so that all ranks make it")


def _is_collective(reading: Reading, code: Code, call: ast.Call) -> bool:
    dotted = code.dotted(call.func)
    name = tail(dotted)
    if name == "save":
        return dotted.startswith("torch.distributed.checkpoint") or dotted == "dcp.save"
    if name == "full_tensor":
        return True
    if name in _GATHERING:
        return "torch.distributed" in dotted or bool(reading.program.calls("fully_shard", "FullyShardedDataParallel"))
    if isinstance(call.func, ast.Name):
        return dotted.startswith("torch.distributed")
    return dotted.startswith("torch.distributed.") or (isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in {"dist", "tdist", "distributed"})


def _guarded_call(reading: Reading, code: Code, call: ast.Call) -> ast.AST | None:
    """The test around a call of the function that makes the collective."""
    function = code.function(call)
    if function is None or not reading.program.callers.get(function):
        return None
    return reading.places.guard(code, call)


def _has_twin(code: Code, call: ast.Call, guard: ast.AST) -> bool:
    """Another barrier of the function stands outside this guard: the ranks pass each other in turn."""
    test = next((a for a in code.ancestors(call) if isinstance(a, ast.If) and a.test is guard), None)
    function = code.function(call) or code.tree
    inside = set(ast.walk(test)) if test is not None else set()
    return any(isinstance(n, ast.Call) and tail(code.dotted(n.func)) == "barrier" and n not in inside and n is not call for n in ast.walk(function))
