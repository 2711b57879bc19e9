"""Loops that train and loops that evaluate."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from scaffold.check import kinds
from scaffold.check.code import LOOPS, SCOPES, Code, tail
from scaffold.check.program import Program
from scaffold.check.values import Held

_ENDS = {"sys.exit", "os._exit", "exit", "quit", "os.abort"}
AnyLoop = ast.For | ast.AsyncFor | ast.While


@dataclass(eq=False)
class Loops:
    """The loops of one program."""

    program: Program

    @cached_property
    def training(self) -> dict[AnyLoop, Code]:
        """Loops whose body calls ``backward``, itself or in functions that it calls."""
        return {loop: code for code in self.program.codes for loop in code.loops if self._backward(code, loop.body)}

    @cached_property
    def steps(self) -> dict[AnyLoop, Code]:
        """Training loops with no training loop in them."""
        inner: dict[AnyLoop, Code] = {}
        for loop, code in self.training.items():
            within = [n for _, n in self.program.reach(code, loop.body) if n in self.training]
            if not within:
                inner[loop] = code
        return inner

    @cached_property
    def evaluations(self) -> dict[ast.For | ast.AsyncFor, Code]:
        """Loops over a loader that do not train."""
        return {
            loop: code
            for code in self.program.codes
            for loop in code.loops
            if isinstance(loop, (ast.For, ast.AsyncFor)) and loop not in self.training and self.loaders(code, loop) and not self._backward(code, loop.body)
        }

    def loaders(self, code: Code, loop: AnyLoop) -> list[Held]:
        """The loaders that a loop reads."""
        if isinstance(loop, (ast.For, ast.AsyncFor)):
            found = self.program.values.all(code, loop.iter, kinds.LOADER)
            if found:
                return found
        drawn = [n for n in ast.walk(loop) if isinstance(n, ast.Call) and tail(code.dotted(n.func)) == "next" and n.args]
        return [h for n in drawn for h in self.program.values.all(code, n.args[0], kinds.LOADER)]

    @cached_property
    def training_loaders(self) -> dict[Held, tuple[Code, AnyLoop]]:
        """Loaders whose batches are trained on, with the loop."""
        found: dict[Held, tuple[Code, AnyLoop]] = {}
        for loop, code in self.training.items():
            for held in self.loaders(code, loop):
                found.setdefault(held, (code, loop))
        return found

    def _backward(self, code: Code, body: list[ast.stmt]) -> bool:
        return any(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and (n.func.attr in {"backward", "manual_backward"})
            for _, n in self.program.reach(code, body)
        )


def leaves(code: Code, node: ast.AST, loop: ast.AST) -> bool:
    """Whether a node ends a loop: it returns, breaks out of this loop, or ends the process."""
    if isinstance(node, ast.Return):
        return True
    if isinstance(node, ast.Break):
        return next((a for a in code.ancestors(node) if isinstance(a, (*LOOPS, *SCOPES))), None) is loop
    return isinstance(node, ast.Call) and code.dotted(node.func) in _ENDS


def evaluates(code: Code, loop: ast.AST) -> bool:
    """Whether gradients are off where a loop stands."""
    function = code.function(loop)
    if function is not None and any(tail(code.dotted(d.func if isinstance(d, ast.Call) else d)) in {"no_grad", "inference_mode"} for d in function.decorator_list):
        return True
    body = function.body if function is not None else code.tree.body
    for above in (loop, *code.ancestors(loop)):
        if isinstance(above, ast.With) and any(_no_grad(code, i.context_expr) for i in above.items):
            return True
    return any(isinstance(n, ast.With) and any(_no_grad(code, i.context_expr) for i in n.items) for n in ast.walk(loop)) or (
        function is not None and any(isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "eval" for s in body for n in ast.walk(s))
    )


def _no_grad(code: Code, expr: ast.expr) -> bool:
    return tail(code.dotted(expr.func if isinstance(expr, ast.Call) else expr)) in {"no_grad", "inference_mode", "set_grad_enabled"}
