"""Where a value came from and where it goes, by the names that carry it. Flow-insensitive, within a function and through what it returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.code import Code, Function, own_of, parameters, passed, tail
from scaffold.check.program import Program

Where = tuple[Code, ast.AST]
_FAR = 3


def body_of(code: Code, node: ast.AST) -> list[ast.stmt]:
    """The statements of the function (or file) that ``node`` stands in."""
    function = code.function(node)
    return function.body if function is not None else code.tree.body


def text_of(node: ast.AST) -> str:
    """A name or attribute as one text; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = text_of(node.value)
        return f"{base}.{node.attr}" if base else ""
    if isinstance(node, (ast.Subscript, ast.Starred)):
        return text_of(node.value)
    return ""


def read(expr: ast.AST) -> set[str]:
    """Names and dotted attributes that an expression reads."""
    found: set[str] = set()
    for node in ast.walk(expr):
        text = text_of(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
        if text:
            found.add(text)
    return found


def carries(expr: ast.AST) -> Iterator[ast.AST]:
    """Nodes of an expression that its value is made of: not where it is placed (``.to(device)``, ``device=``)."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"to", "cuda", "device"}:
            stack.append(node.func)
        elif isinstance(node, ast.Call):
            stack += [node.func, *node.args, *(k.value for k in node.keywords if k.arg not in kinds.PLACING)]
        else:
            stack += ast.iter_child_nodes(node)


def _carried_names(expr: ast.AST) -> set[str]:
    return {text_of(n) for n in carries(expr) if isinstance(n, (ast.Name, ast.Attribute))} - {""}


def assigned(statement: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """``(target, value)`` of an assignment, tuples taken apart."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    if isinstance(statement, ast.Assign):
        pairs = [(t, statement.value) for t in statement.targets]
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)) and statement.value is not None:
        pairs = [(statement.target, statement.value)]
    found: list[tuple[ast.expr, ast.expr]] = []
    for target, value in pairs:
        if isinstance(target, (ast.Tuple, ast.List)):
            split = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            values = value.elts if split and isinstance(value, (ast.Tuple, ast.List)) else [value] * len(target.elts)
            found += list(zip(target.elts, values, strict=True))
        else:
            found.append((target, value))
    return found


def assignments(program: Program, code: Code, node: ast.AST) -> dict[str, list[ast.expr]]:
    """What names are assigned in the function that ``node`` stands in."""
    function = code.function(node) or code.tree
    known = program.assigned.get(function)
    if known is None:
        known = program.assigned[function] = {}
        for each in own_of(function.body):
            for target, value in assigned(each):
                known.setdefault(text_of(target), []).append(value)
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in {"append", "extend", "add_"}:
                known.setdefault(text_of(each.func.value), []).extend(each.args)
    return known


def sources(program: Program, code: Code, expr: ast.AST, depth: int = _FAR) -> list[Where]:
    """``expr`` and the expressions that its names were assigned from: in its function, and in functions whose result it is."""
    seen: set[ast.AST] = set()
    found: list[Where] = []

    def go(code: Code, expr: ast.AST, depth: int) -> None:
        if expr in seen:
            return
        seen.add(expr)
        found.append((code, expr))
        given = assignments(program, code, expr)
        for name in _carried_names(expr):
            for value in given.get(name, ()):
                go(code, value, depth)
        if depth:
            for node in ast.walk(expr):
                entered = program.callee(code, node) if isinstance(node, ast.Call) else None
                if entered is not None:
                    for returned in own_of(entered[1].body):
                        if isinstance(returned, ast.Return) and returned.value is not None:
                            go(entered[0], returned.value, depth - 1)

    go(code, expr, depth)
    return found


def shared(program: Program, code: Code, node: ast.AST) -> bool:
    """Whether a call makes ranks share a value, itself or in the function it enters; functions out of sight are believed by their name."""
    if not isinstance(node, ast.Call):
        return False
    known = program.sharing.get(node)
    if known is None:
        known = program.sharing[node] = _shared(program, code, node)
    return known


def _shared(program: Program, code: Code, node: ast.Call) -> bool:
    dotted, name = code.dotted(node.func), code.called(node)
    if name in kinds.REDUCES and (isinstance(node.func, ast.Name) or dotted.startswith(("torch.distributed", "dist.", "funcol.")) or name == "full_tensor" or "reduce" in name or "gather" in name):
        return True
    if name == "compute" and program.metrics:
        return True
    entered = program.callee(code, node)
    if entered is None:
        return bool(kinds.REDUCING_NAME.search(name)) and name not in {"reduce_mean", "synchronize", "scatter_reduce", "index_reduce", "convert_sync_batchnorm", "SyncBatchNorm", "no_sync", "set_requires_gradient_sync"}
    return any(isinstance(n, ast.Call) and tail(c.dotted(n.func)) in kinds.REDUCES for c, n in program.reach(entered[0], entered[1].body, 3))


def carried(program: Program, code: Code, names: set[str], function: Function | None) -> set[str]:
    """The names, of the same function, that values of ``names`` are assigned to."""
    body = function.body if function is not None else code.tree.body
    found = set(names)
    for _ in range(6):
        before = len(found)
        for node in own_of(body):
            for target, value in assigned(node):
                if read(value) & found:
                    found.add(text_of(target))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"append", "update", "add", "extend"} and any(read(a) & found for a in node.args):
                found.add(text_of(node.func.value))
        found.discard("")
        if len(found) == before:
            break
    return found


def is_shared_later(program: Program, code: Code, names: set[str], function: Function | None, depth: int = 2) -> bool:
    """Whether a value held by ``names`` (or what is made of it) is given to something that shares it among ranks: here, or where the function's result goes."""
    all_names = carried(program, code, names, function)
    body = function.body if function is not None else code.tree.body
    for node in own_of(body):
        if isinstance(node, ast.Call) and shared(program, code, node):
            given = set().union(*(read(a) for a in (*node.args, *(k.value for k in node.keywords)))) if node.args or node.keywords else set()
            owner = read(node.func.value) if isinstance(node.func, ast.Attribute) else set()
            if (given | owner) & all_names:
                return True
    if not depth or function is None:
        return False
    if any(a.arg in all_names for a in parameters(function)) and _through_parameters(program, function, all_names, depth):
        return True
    returns = any(isinstance(n, ast.Return) and n.value is not None and read(n.value) & all_names for n in own_of(body))
    if not returns:
        return False
    callers = program.callers.get(function, [])
    return any(
        _result_shared(program, c.code, c.call) or is_shared_later(program, c.code, targets, c.code.function(c.call), depth - 1)
        for c in callers
        if (targets := {text_of(t) for t in targets_of(c.code, c.call)} - {""}) or _result_shared(program, c.code, c.call)
    )


def _through_parameters(program: Program, function: Function, names: set[str], depth: int) -> bool:
    """An accumulator that the caller made and shares afterwards."""
    for parameter in parameters(function):
        if parameter.arg in names:
            for called in program.callers.get(function, []):
                given = passed(function, called.call, parameter.arg)
                if given is not None and text_of(given) and is_shared_later(program, called.code, {text_of(given)}, called.code.function(called.call), depth - 1):
                    return True
    return False


def _result_shared(program: Program, code: Code, call: ast.Call) -> bool:
    """Whether a call's result goes straight into something that shares it."""
    return any(isinstance(a, ast.Call) and shared(program, code, a) for a in _enclosing(code, call))


def _enclosing(code: Code, node: ast.AST) -> Iterator[ast.AST]:
    for above in code.ancestors(node):
        if isinstance(above, ast.stmt):
            return
        yield above


def targets_of(code: Code, call: ast.AST) -> list[ast.expr]:
    """What the statement of a call assigns its result to."""
    found: list[ast.expr] = []
    for target, _ in assigned(code.statement(call)):
        found.append(target)
    return found


def own_sources(code: Code, expr: ast.AST) -> Iterator[Where]:
    """Nodes of ``expr`` and of what its names were assigned, within its function."""
    body = body_of(code, expr)
    seen: set[ast.AST] = set()
    queue: list[ast.AST] = [expr]
    while queue:
        part = queue.pop()
        if part in seen:
            continue
        seen.add(part)
        names: set[str] = set()
        for node in ast.walk(part):
            yield code, node
            if isinstance(node, ast.Name) and not isinstance(code.parent.get(node), ast.Attribute):
                names.add(node.id)
        queue += [value for node in own_of(body) for target, value in assigned(node) if text_of(target) in names]
