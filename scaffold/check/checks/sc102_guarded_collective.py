"""No collective stands where rank 0 alone comes by.

A collective needs every rank. Under ``if rank == 0:`` one rank waits in it for ever, or it pairs with another rank's next
collective and mixes up their values. Gathering a sharded model's state, and a save through ``torch.distributed.checkpoint``,
are collectives too. Taken for right: a barrier under a test of rank 0 that the other ranks' branch, or a test for the other
ranks, has as well (one process goes first), and groups made of some ranks alone (``group=``).
https://docs.pytorch.org/docs/stable/distributed.html#collective-functions
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.code import Code, Function, tail
from scaffold.check.finding import Finding
from scaffold.check.program import Called
from scaffold.check.reading import Reading

ID = "SC102"
NAME = "guarded-collective"
_GATHERING = {"get_model_state_dict", "get_state_dict", "get_optimizer_state_dict", "full_tensor", "set_model_state_dict", "set_optimizer_state_dict", "async_save", "optim_state_dict", "full_optim_state_dict"}


def check(reading: Reading) -> Iterator[Finding]:
    """Collectives under a test for rank 0, and calls there of functions that make one."""
    program = reading.program
    made: dict[Function, str] = {}
    queue: list[tuple[Called, str]] = [
        (c, tail(c.code.dotted(c.call.func)) or ast.unparse(c.call.func))
        for c in program.calls(*kinds.COLLECTIVES, *_GATHERING, "save")
        if _is_collective(reading, c.code, c.call) and not any(k.arg == "group" for k in c.call.keywords)
    ]
    while queue:
        (code, call), name = queue.pop()
        guard = reading.places.guard(code, call, calls=False)
        if guard is not None:
            if not _has_twin(reading, code, call, guard):
                where = f" (line {guard.lineno})" if isinstance(guard, ast.expr) else ""
                inside = name if tail(code.dotted(call.func)) == name or name == ast.unparse(call.func) else f"{ast.unparse(call.func)} calls {name}, which"
                yield reading.at(ID, "error", code, call, f"{inside} is a collective, and rank 0 alone comes here{where}: it waits for the others, which never come", "move it out, so that all ranks make it")
            continue
        function = code.function(call)
        if function is not None and function not in made and not _in_lambda(code, call):
            made[function] = name
            queue += [(c, name) for c in program.callers.get(function, []) if program.callee(c.code, c.call) is not None]


def _in_lambda(code: Code, call: ast.Call) -> bool:
    """A lambda's body does not run where it stands."""
    return any(isinstance(a, ast.Lambda) for a in code.ancestors(call))


def _is_collective(reading: Reading, code: Code, call: ast.Call) -> bool:
    dotted = code.dotted(call.func)
    name = tail(dotted)
    if name == "save":
        return dotted.startswith("torch.distributed.checkpoint") or dotted == "dcp.save"
    if name == "full_tensor" or not name:
        return True
    if name in _GATHERING:
        return "torch.distributed" in dotted or bool(reading.program.calls("fully_shard", "FullyShardedDataParallel"))
    if isinstance(call.func, ast.Name):
        return dotted.startswith("torch.distributed")
    return dotted.startswith("torch.distributed.") or (isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in {"dist", "tdist", "distributed"})


def _has_twin(reading: Reading, code: Code, call: ast.Call, guard: ast.AST) -> bool:
    """The other ranks make the same collective elsewhere in the function."""
    name = tail(code.dotted(call.func))
    test = next((a for a in code.ancestors(call) if isinstance(a, ast.If) and a.test is guard), None)
    if test is None:
        return False
    others = [n for part in (test.orelse if call in set(ast.walk(ast.Module(test.body, []))) else test.body) for n in ast.walk(part)]
    if any(isinstance(n, ast.Call) and tail(code.dotted(n.func)) == name for n in others):
        return True
    function = code.function(call) or code.tree
    return any(
        isinstance(n, ast.If) and n is not test and reading.values.has(code, n.test, kinds.OTHERS) and any(isinstance(c, ast.Call) and tail(code.dotted(c.func)) == name for s in n.body for c in ast.walk(s))
        for n in ast.walk(function)
    )
