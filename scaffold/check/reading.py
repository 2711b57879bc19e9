"""What a check is given: a program, and the answers about it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from scaffold.check import kinds
from scaffold.check.code import Code, parameters, tail
from scaffold.check.finding import Finding
from scaffold.check.flow import shared, text_of
from scaffold.check.loops import Loops
from scaffold.check.places import Places
from scaffold.check.program import WRAPS, Program
from scaffold.check.values import Held, Values


@dataclass(eq=False)
class Reading:
    """A program as it was read."""

    program: Program

    @property
    def values(self) -> Values:
        """What each name holds."""
        return self.program.values

    @cached_property
    def places(self) -> Places:
        """Who runs a line."""
        return Places(self.program)

    @cached_property
    def loops(self) -> Loops:
        """Training and evaluation loops."""
        return Loops(self.program)

    @cached_property
    def starts(self) -> bool:
        """Whether the program makes a process group itself."""
        return bool(self.program.calls("init_process_group", "init_device_mesh"))

    @cached_property
    def wraps(self) -> bool:
        """Whether a model is wrapped by DDP, or sharded."""
        return bool(self.program.calls(*WRAPS))

    @cached_property
    def averages(self) -> bool:
        """Whether gradients go through a collective by hand, in a function that is called."""
        for code, call in self.program.calls("all_reduce", "reduce", "all_reduce_coalesced", "reduce_scatter_tensor", "all_gather"):
            function = code.function(call)
            if function is not None and function not in self.program.callers and isinstance(code.scope[function], ast.Module):
                continue
            if any(isinstance(n, ast.Attribute) and n.attr == "grad" for n in ast.walk(function or code.statement(call))):
                return True
        return False

    @property
    def together(self) -> bool:
        """Whether ranks train one model together, by a wrapper or by hand."""
        return self.wraps or self.averages

    @cached_property
    def inner(self) -> set[Held]:
        """Modules that a DDP wrapper holds."""
        return {held for held, calls in self.values.wrapped.items() if any(tail(c.dotted(n.func)) == "DistributedDataParallel" for c, n in calls) and held.kind in {kinds.MADE, kinds.INSTANCE, kinds.DDP}}

    @cached_property
    def shared_names(self) -> dict[ast.AST, set[str]]:
        """Names, of each function (or file), that are given to something that shares them among ranks."""
        found: dict[ast.AST, set[str]] = {}
        for _ in range(2):
            for code in self.program.codes:
                for call in code.calls:
                    if shared(self.program, code, call):
                        names = found.setdefault(code.function(call) or code.tree, set())
                        names |= {text_of(part) for a in self._shared_arguments(code, call, found) for part in (a, *ast.iter_child_nodes(a))} - {""}
        return found

    def _shared_arguments(self, code: Code, call: ast.Call, found: dict[ast.AST, set[str]]) -> list[ast.expr]:
        """All arguments of a collective; of a function of the program, those that it shares in place."""
        entered = self.program.callee(code, call)
        if entered is None:
            return call.args
        names = [a.arg for a in parameters(entered[1])]
        names = names[1:] if names[:1] == ["self"] else names
        shares = found.get(entered[1], set())
        return [a for a, name in zip(call.args, names, strict=False) if name in shares]

    def around(self, code: Code, expr: ast.AST) -> bool:
        """Whether an expression is the module inside a DDP wrapper and never the wrapper itself."""
        held = self.values.of(code, expr)
        if any(h.kind in {kinds.DDP, kinds.FSDP} for h in held):
            return False
        return any(h.kind == kinds.INNER for h in held) or bool(held & self.inner and any(h.kind == kinds.MADE for h in held & self.inner))

    def alone(self, code: Code, node: ast.AST) -> bool:
        """Whether rank 0 alone comes to ``node``."""
        return self.places.guard(code, node) is not None

    def at(self, rule: str, severity: str, code: Code, node: ast.AST, why: str, do: str) -> Finding:
        """A finding at a node."""
        line = getattr(node, "lineno", 1)
        return Finding(code.name, line, rule, severity, why, do, getattr(node, "end_lineno", None) or line)
