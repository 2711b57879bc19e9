"""Who runs a line: every rank, or rank 0 alone."""

from __future__ import annotations

import ast

from scaffold.check import kinds
from scaffold.check.code import SCOPES, Code, Function, is_none, own_of, parameters, passed, tail
from scaffold.check.flow import assigned, text_of
from scaffold.check.program import Program

_LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Raise)
_DECORATORS = ("rank_zero_only", "main_process_only", "master_only", "on_main_process", "rank0_only", "only_on_master", "master_process_only", "rank_zero")


class Places:
    """Answers for one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._functions: dict[Function, ast.AST | None] = {}

    def guard(self, code: Code, node: ast.AST, calls: bool = True) -> ast.AST | None:
        """The test that lets rank 0 alone (of all, or of a machine) come to ``node``; with ``calls``, at all places that call its function too."""
        below = node
        for above in code.ancestors(node):
            test = self._between(code, above, below)
            if test is not None:
                return test
            if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return self._of_function(code, above) if calls else None
            below = above
        return None

    def _between(self, code: Code, above: ast.AST, below: ast.AST) -> ast.AST | None:
        if isinstance(above, ast.If):
            if below in above.body and self._holds(code, above.test, kinds.MAIN):
                return above.test
            if below in above.orelse and self._holds(code, above.test, kinds.OTHERS):
                return above.test
        elif isinstance(above, ast.IfExp):
            if (below is above.body and self._holds(code, above.test, kinds.MAIN)) or (below is above.orelse and self._holds(code, above.test, kinds.OTHERS)):
                return above.test
        elif isinstance(above, ast.BoolOp) and isinstance(above.op, ast.And):
            for value in above.values:
                if value is below:
                    break
                if self._holds(code, value, kinds.MAIN):
                    return value
        return self._early_exit(code, above, below)

    def _early_exit(self, code: Code, above: ast.AST, below: ast.AST) -> ast.AST | None:
        """``if rank != 0: return`` earlier in the block."""
        for block in (getattr(above, "body", None), getattr(above, "orelse", None), getattr(above, "finalbody", None)):
            if not isinstance(block, list) or below not in block:
                continue
            for statement in block[: block.index(below)]:
                if isinstance(statement, ast.If) and isinstance(statement.body[-1], _LEAVES) and self._holds(code, statement.test, kinds.OTHERS):
                    return statement.test
        return None

    def _holds(self, code: Code, test: ast.expr, kind: str) -> bool:
        if isinstance(test, ast.BoolOp) and kind == kinds.OTHERS and isinstance(test.op, ast.And):
            return any(self._holds(code, v, kind) for v in test.values)
        return self.program.values.has(code, test, kind) or (kind == kinds.MAIN and self._exists_there(code, test))

    def _exists_there(self, code: Code, test: ast.expr, depth: int = 2) -> bool:
        """``if writer is not None:`` where nothing but a line of rank 0's gives ``writer`` a value."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return any(self._exists_there(code, v, depth) for v in test.values)
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot) and is_none(test.comparators[0]):
            test = test.left
        return isinstance(test, (ast.Name, ast.Attribute)) and self._given_there(code, test, depth)

    def _given_there(self, code: Code, expr: ast.Name | ast.Attribute, depth: int) -> bool:
        name = text_of(expr)
        function = code.function(expr)
        if function is not None and name in {a.arg for a in parameters(function)}:
            return bool(depth) and self._passed_there(function, name, depth - 1)
        given = [(t, v) for n in self._assignments(code, function, name) for t, v in assigned(n) if text_of(t) == name and not is_none(v)]
        return bool(given) and all(self._of_rank_0(code, t, v) for t, v in given)

    def _of_rank_0(self, code: Code, target: ast.expr, value: ast.expr) -> bool:
        if self.guard(code, target, calls=False) is not None:
            return True
        return isinstance(value, ast.IfExp) and ((is_none(value.orelse) and self.program.values.has(code, value.test, kinds.MAIN)) or (is_none(value.body) and self.program.values.has(code, value.test, kinds.OTHERS)))

    def _assignments(self, code: Code, function: Function | None, name: str) -> list[ast.AST]:
        whole = "." in name or function is None
        return [n for n in (code.nodes if whole else own_of(function.body if function is not None else [])) if isinstance(n, (ast.Assign, ast.AnnAssign))]

    def _passed_there(self, function: Function, name: str, depth: int) -> bool:
        given = [(c.code, passed(function, c.call, name)) for c in self.program.callers.get(function, [])]
        return bool(given) and all(isinstance(expr, (ast.Name, ast.Attribute)) and self._given_there(code, expr, depth) for code, expr in given)

    def _of_function(self, code: Code, function: Function) -> ast.AST | None:
        if function in self._functions:
            return self._functions[function]
        self._functions[function] = None
        found: ast.AST | None = None
        for decorator in function.decorator_list:
            if tail(code.dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)) in _DECORATORS:
                found = decorator
        callers = self.program.callers.get(function, [])
        if found is None and callers:
            guards = [self.guard(c.code, c.call) for c in callers]
            found = guards[0] if all(g is not None for g in guards) else None
        self._functions[function] = found
        return found

    def differs(self, code: Code, node: ast.AST) -> ast.AST | None:
        """A test on the rank (any rank) that ``node`` stands under, in its function."""
        below = node
        for above in code.ancestors(node):
            if isinstance(above, SCOPES):
                return None
            if isinstance(above, (ast.If, ast.While)) and below in (*above.body, *above.orelse) and self.program.values.differs(code, above.test):
                return above.test
            below = above
        return None
