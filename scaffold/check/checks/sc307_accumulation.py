"""Gradients are averaged once for each optimizer step, neither more often nor never.

With gradient accumulation DDP averages on every micro-batch unless all but the last run under ``no_sync()``; a step that runs
wholly under ``no_sync()`` is never averaged.
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html#torch.nn.parallel.DistributedDataParallel.no_sync
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check.code import Code, own_of
from scaffold.check.finding import Finding
from scaffold.check.reading import Reading

ID = "SC307"
NAME = "accumulation"


def check(reading: Reading) -> Iterator[Finding]:
    """Accumulation without ``no_sync``, and ``no_sync`` without an end."""
    program = reading.program
    controlled = bool(program.calls("no_sync", "set_requires_gradient_sync")) or any("require_backward_grad_sync" in c.text for c in program.codes)
    for loop, code in reading.loops.steps.items():
        backwards = [n for n in own_of(loop.body) if _calls(n, "backward")]
        if not backwards:
            continue
        silent = [b for b in backwards if _always_silent(code, b, loop)]
        if silent and len(silent) == len(backwards):
            yield reading.at(ID, "error", code, silent[0], "every backward runs under no_sync(): gradients are never averaged among ranks", "leave no_sync() out on the last micro-batch of each step")
        if not controlled and program.calls("DistributedDataParallel") and _accumulates(code, loop):
            yield reading.at(
                ID, "warning", code, backwards[0], "gradients are averaged on every micro-batch, though the optimizer steps less often",
                "run all but the last micro-batch under model.no_sync()",
            )  # fmt: skip


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name


def _always_silent(code: Code, node: ast.AST, loop: ast.AST) -> bool:
    for above in code.ancestors(node):
        if above is loop:
            return False
        if isinstance(above, ast.With) and any(_calls(i.context_expr, "no_sync") for i in above.items):
            return not any(isinstance(a, (ast.If, ast.IfExp)) for a in _until(code, above, loop))
    return False


def _until(code: Code, node: ast.AST, end: ast.AST) -> Iterator[ast.AST]:
    for above in code.ancestors(node):
        if above is end:
            return
        yield above


def _accumulates(code: Code, loop: ast.AST) -> bool:
    """The optimizer's step is under a test with a modulo, the backward is not."""
    for node in ast.walk(loop):
        if isinstance(node, ast.If) and any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in ast.walk(node.test)):
            inside = list(own_of(node.body))
            steps = any(_calls(n, "step") for n in inside)
            if steps and any(_calls(n, "zero_grad") for n in inside) and not any(_calls(n, "backward") for n in inside):
                return True
    return False
