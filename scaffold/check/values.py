"""What each name of a program holds, followed through assignments, calls, returns and attributes. Flow-insensitive: a name holds all it ever held."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from scaffold.check import kinds
from scaffold.check.code import Code, Function, parameters, tail

if TYPE_CHECKING:
    from scaffold.check.program import Program


class Held(NamedTuple):
    """Something a name may hold; ``node`` tells two loaders apart, ``code`` is the file that makes it."""

    kind: str
    node: ast.AST | None = None
    code: Code | None = None


Objs = frozenset[Held]
Key = tuple[object, str]
NONE: Objs = frozenset()
_PASSES = 6
_BINDING = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For, ast.AsyncFor, ast.comprehension, ast.withitem, ast.Return, ast.Call)


def only(kind: str) -> Objs:
    """A value of a kind that has no identity."""
    return frozenset({Held(kind)})


class Values:
    """The values of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.env: dict[Key, Objs] = {}
        self.wrapped: dict[Held, list[tuple[Code, ast.Call]]] = {}
        self._changed = True
        self._memo: dict[ast.AST, Objs] | None = None
        for _ in range(_PASSES):
            if not self._changed:
                break
            self._changed = False
            for code in program.codes:
                for node in code.nodes:
                    if isinstance(node, _BINDING):
                        self._bind(code, node)
        self._memo = {}

    def has(self, code: Code, expr: ast.AST, *wanted: str) -> bool:
        """Whether an expression may hold one of these kinds."""
        return any(h.kind in wanted for h in self.of(code, expr))

    def all(self, code: Code, expr: ast.AST, kind: str) -> list[Held]:
        """What of a kind an expression may hold."""
        return [h for h in self.of(code, expr) if h.kind == kind]

    def _add(self, key: Key, objs: Objs) -> None:
        old = self.env.get(key, NONE)
        if not objs <= old:
            self.env[key] = old | objs
            self._changed = True

    # What is bound

    def _bind(self, code: Code, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(code, target, node.value)
        elif isinstance(node, ast.AugAssign):
            self._store(code, node.target, self._ranked(code, node.value))
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            self._assign(code, node.target, node.value)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            self._iterate(code, node.target, node.iter)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._assign(code, node.optional_vars, node.context_expr)
        elif isinstance(node, ast.Return) and node.value is not None:
            function = code.function(node)
            if function is not None:
                self._add((function, "return"), self.of(code, node.value))
                if isinstance(node.value, ast.Tuple):
                    for i, part in enumerate(node.value.elts):
                        self._add((function, f"return {i}"), self.of(code, part))
        elif isinstance(node, ast.Call):
            self._pass(code, node)

    def _assign(self, code: Code, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                for t, v in zip(target.elts, value.elts, strict=True):
                    self._assign(code, t, v)
                return
            entered = self.callee(code, value) if isinstance(value, ast.Call) else None
            for i, t in enumerate(target.elts):
                objs = self.env.get((entered[1], f"return {i}"), NONE) if entered is not None else self.of(code, value)
                self._store(code, t, objs)
            return
        self._store(code, target, self.of(code, value))

    def _store(self, code: Code, target: ast.expr, objs: Objs) -> None:
        for key in self._keys(code, target):
            self._add(key, objs)

    def _iterate(self, code: Code, target: ast.expr, iterable: ast.expr) -> None:
        if isinstance(iterable, (ast.Tuple, ast.List)):
            for part in iterable.elts:
                self._assign(code, target, part)

    def _keys(self, code: Code, target: ast.expr) -> list[Key]:
        if isinstance(target, ast.Starred):
            target = target.value
        if isinstance(target, ast.Name):
            return [(code.home(code.scope[target], target.id) or code.tree, target.id)]
        if isinstance(target, ast.Attribute):
            owners = [h.node for h in self.of(code, target.value) if h.kind == kinds.INSTANCE]
            return [(o, target.attr) for o in owners] or [("attribute", target.attr)]
        if isinstance(target, ast.Subscript):
            return self._keys(code, target.value)
        return []

    def _pass(self, code: Code, call: ast.Call) -> None:
        name = tail(code.dotted(call.func))
        if name in {"spawn", "Process", "start_processes"}:
            self._spawn(code, call, name)
            return
        if name in {"DistributedDataParallel", "FullyShardedDataParallel", "fully_shard"} and call.args:
            for held in self.of(code, call.args[0]):
                self.wrapped.setdefault(held, []).append((code, call))
        if name == "append" and isinstance(call.func, ast.Attribute) and call.args:
            self._store(code, call.func.value, self.of(code, call.args[0]))
        entered = self.callee(code, call)
        if entered is None:
            return
        function = entered[1]
        names = [a.arg for a in parameters(function)]
        if names and self._bound_method(code, call, entered):
            names = names[1:]
        for position, arg in zip(names, call.args, strict=False):
            if not isinstance(arg, ast.Starred):
                self._add((function, position), self.of(code, arg))
        for keyword in call.keywords:
            if keyword.arg in names:
                self._add((function, keyword.arg or ""), self.of(code, keyword.value))

    def _spawn(self, code: Code, call: ast.Call, name: str) -> None:
        given = {k.arg: k.value for k in call.keywords}
        target = given.get("target") or given.get("fn") or (call.args[0] if call.args else None)
        found = self.program.definition(code, code.dotted(target)) if target is not None else None
        if found is None or not isinstance(found[1], (ast.FunctionDef, ast.AsyncFunctionDef)):
            return
        names = [a.arg for a in parameters(found[1])]
        arguments = given.get("args") or (call.args[1] if len(call.args) > 1 else None)
        if name != "Process" and names:
            self._add((found[1], names[0]), only(kinds.RANK) | only(kinds.LOCAL_RANK))
            names = names[1:]
        if isinstance(arguments, ast.Tuple):
            for position, arg in zip(names, arguments.elts, strict=False):
                objs = self.of(code, arg)
                if name == "Process" and kinds.RANK_NAME.match(position):
                    objs |= only(kinds.RANK)
                self._add((found[1], position), objs)

    def _bound_method(self, code: Code, call: ast.Call, entered: tuple[Code, Function]) -> bool:
        home, function = entered
        if not isinstance(home.scope[function], ast.ClassDef):
            return False
        if any(tail(home.dotted(d)) == "staticmethod" for d in function.decorator_list):
            return False
        direct = self.program.definition(code, code.dotted(call.func.value)) if isinstance(call.func, ast.Attribute) else None
        return not (direct is not None and isinstance(direct[1], ast.ClassDef) and function.name != "__init__")

    # What an expression holds

    def of(self, code: Code, expr: ast.AST) -> Objs:
        """What an expression may hold."""
        if self._memo is None:
            return self._of(code, expr)
        known = self._memo.get(expr)
        if known is None:
            known = self._memo[expr] = self._of(code, expr)
        return known

    def _of(self, code: Code, expr: ast.AST) -> Objs:
        if isinstance(expr, ast.Constant):
            return NONE
        if isinstance(expr, ast.Name):
            return self._name(code, expr)
        if isinstance(expr, ast.Attribute):
            return self._attribute(code, expr)
        if isinstance(expr, ast.Call):
            return self._call(code, expr)
        if isinstance(expr, ast.Subscript):
            return self._subscript(code, expr)
        if isinstance(expr, ast.IfExp):
            differs = self._ranked(code, expr.test)
            return self.of(code, expr.body) | self.of(code, expr.orelse) | differs
        if isinstance(expr, ast.BoolOp):
            parts = [self.of(code, v) for v in expr.values]
            return frozenset().union(*parts)
        if isinstance(expr, ast.UnaryOp) and isinstance(expr.op, ast.Not):
            held = self.of(code, expr.operand)
            swap = {kinds.MAIN: kinds.OTHERS, kinds.OTHERS: kinds.MAIN}
            truth = frozenset(Held(swap[h.kind]) for h in held if h.kind in swap)
            return truth or (only(kinds.MAIN) if any(h.kind in {kinds.RANK, kinds.LOCAL_RANK} for h in held) else NONE)
        if isinstance(expr, ast.Compare):
            return self._compare(code, expr)
        if isinstance(expr, (ast.Tuple, ast.List, ast.Set)):
            return frozenset().union(*(self.of(code, e) for e in expr.elts))
        if isinstance(expr, ast.Dict):
            return frozenset().union(*(self.of(code, v) for v in expr.values))
        if isinstance(expr, (ast.DictComp, ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            return self.of(code, expr.value if isinstance(expr, ast.DictComp) else expr.elt)
        if isinstance(expr, (ast.Starred, ast.NamedExpr, ast.Await)):
            return self.of(code, expr.value)
        if isinstance(expr, ast.JoinedStr) and expr.values and isinstance(expr.values[0], ast.Constant) and str(expr.values[0].value).startswith(("cuda", "xpu", "npu", "hpu")):
            return NONE
        if isinstance(expr, (ast.BinOp, ast.JoinedStr, ast.FormattedValue, ast.Slice, ast.UnaryOp)):
            parts = [self._ranked(code, c) for c in ast.iter_child_nodes(expr)]
            world = self._world(code, expr) if isinstance(expr, ast.BinOp) else NONE
            return frozenset().union(*parts) | world
        return NONE

    def _world(self, code: Code, expr: ast.BinOp) -> Objs:
        return frozenset(h for side in (expr.left, expr.right) for h in self.of(code, side) if h.kind == kinds.WORLD)

    def _ranked(self, code: Code, expr: ast.AST) -> Objs:
        return only(kinds.RANKED) if self.differs(code, expr) else NONE

    def differs(self, code: Code, expr: ast.AST) -> bool:
        """Whether a value follows the rank."""
        return any(h.kind in {kinds.RANK, kinds.LOCAL_RANK, kinds.RANKED, kinds.MAIN, kinds.OTHERS} for h in self.of(code, expr))

    def _name(self, code: Code, expr: ast.Name) -> Objs:
        home = code.home(code.scope[expr], expr.id)
        if home is None:
            found = self.program.definition(code, code.imports.get(expr.id, expr.id))
            if found is not None:
                return NONE
            module = self._module_value(code, code.imports.get(expr.id, ""))
            return module or _by_name(expr.id)
        objs = self.env.get((home, expr.id), NONE)
        if isinstance(home, (ast.FunctionDef, ast.AsyncFunctionDef)) and isinstance(code.scope[home], ast.ClassDef):
            first = parameters(home)[:1]
            if first and first[0].arg == expr.id:
                return objs | frozenset({Held(kinds.INSTANCE, code.scope[home], code)})
        return objs or _by_name(expr.id)

    def _module_value(self, code: Code, dotted: str) -> Objs:
        if "." not in dotted.lstrip("."):
            return NONE
        home = self.program.module(code, dotted.rpartition(".")[0] or ".")
        return self.env.get((home.tree, tail(dotted)), NONE) if home is not None else NONE

    def _attribute(self, code: Code, expr: ast.Attribute) -> Objs:
        dotted = code.dotted(expr)
        if dotted.startswith("torch.") or dotted == "os.environ":
            return NONE
        base = self.of(code, expr.value)
        found: set[Held] = set()
        instances = False
        for held in base:
            if held.kind == kinds.INSTANCE and isinstance(held.node, ast.ClassDef) and held.code is not None:
                instances = True
                for _, cls in self.program.base(held.code, held.node):
                    found |= self.env.get((cls, expr.attr), NONE)
                method = self.program.method(held.code, held.node, expr.attr)
                if method is not None and any(tail(method[0].dotted(d)) in {"property", "cached_property"} for d in method[1].decorator_list):
                    found |= self.env.get((method[1], "return"), NONE)
            elif held.kind in {kinds.DDP, kinds.INNER} and expr.attr in {"module", "_orig_mod"}:
                found.add(Held(kinds.INNER, held.node, held.code) if expr.attr == "module" else held)
            elif held.kind == kinds.LOADER and expr.attr in {"sampler", "batch_sampler"} and isinstance(held.node, ast.Call) and held.code is not None:
                for keyword in held.node.keywords:
                    if keyword.arg in {"sampler", "batch_sampler"}:
                        found |= self.of(held.code, keyword.value)
        if not instances and not found:
            found |= self.env.get(("attribute", expr.attr), NONE) or self._module_value(code, dotted)
        return frozenset(found) or _by_name(expr.attr)

    def _subscript(self, code: Code, expr: ast.Subscript) -> Objs:
        if code.dotted(expr.value) == "os.environ" and isinstance(expr.slice, ast.Constant):
            return _environment(expr.slice.value)
        if isinstance(expr.slice, ast.Constant) and isinstance(expr.slice.value, str) and _by_name(expr.slice.value):
            return _by_name(expr.slice.value)
        return self.of(code, expr.value) | self._ranked(code, expr.slice)

    def _compare(self, code: Code, expr: ast.Compare) -> Objs:
        if len(expr.ops) != 1:
            return NONE
        sides = [expr.left, expr.comparators[0]]
        ranks = [i for i, s in enumerate(sides) if self.has(code, s, kinds.RANK, kinds.LOCAL_RANK) or self._of_machine(code, s)]
        if not ranks:
            return frozenset().union(*(self._ranked(code, s) for s in sides))
        other = sides[1 - ranks[0]]
        op = expr.ops[0]
        if isinstance(op, (ast.Eq, ast.Is)):
            return only(kinds.MAIN)
        if isinstance(op, ast.In):
            return only(kinds.MAIN)
        if isinstance(op, (ast.NotEq, ast.IsNot)):
            return NONE if _minus_one(other) else only(kinds.OTHERS)
        if isinstance(op, (ast.Gt, ast.GtE)) and isinstance(other, ast.Constant):
            return only(kinds.OTHERS)
        if isinstance(op, ast.Lt) and isinstance(other, ast.Constant):
            return only(kinds.MAIN)
        if isinstance(op, ast.LtE) and isinstance(other, ast.Constant):
            return only(kinds.MAIN)
        return NONE

    def _of_machine(self, code: Code, expr: ast.AST) -> bool:
        """``rank % gpus_per_machine``."""
        return isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Mod) and self.has(code, expr.left, kinds.RANK)

    def _call(self, code: Code, call: ast.Call) -> Objs:
        dotted, name = code.dotted(call.func), code.called(call)
        if name in {"get", "getenv"} and dotted in {"os.environ.get", "os.getenv"} and call.args and isinstance(call.args[0], ast.Constant):
            return _environment(call.args[0].value)
        if name == "getattr" and len(call.args) > 1 and isinstance(call.args[1], ast.Constant) and isinstance(call.args[1].value, str):
            return _by_name(call.args[1].value)
        if name == "get_rank" and call.args and not isinstance(call.args[0], ast.Constant):
            return only(kinds.RANKED)
        entered = self.callee(code, call)
        if entered is not None and entered[1].name != "__init__":
            found = self.env.get((entered[1], "return"), NONE)
            return found or _named_call(name)
        if isinstance(call.func, ast.Attribute) and name in kinds.SAME and not dotted.startswith("torch."):
            return self.of(code, call.func.value)
        kind = kinds.CALLS.get(name) or (kinds.OPTIMIZER if name in kinds.OPTIMIZERS else "")
        if kind in {kinds.RANK, kinds.LOCAL_RANK, kinds.WORLD}:
            return only(kind)
        made = self._made(code, call, kind, dotted)
        if name == "fully_shard" and call.args:
            made |= self.of(code, call.args[0])
        if name in kinds.THROUGH and call.args:
            return frozenset().union(*(self.of(code, a) for a in call.args))
        return made

    def _made(self, code: Code, call: ast.Call, kind: str, dotted: str) -> Objs:
        if kind:
            return frozenset({Held(kind, call, code)})
        if dotted.startswith("torch.") and tail(dotted) in {"device", "set_device", "cuda"}:
            return NONE
        differs = self._arguments(code, call)
        found = self.program.definition(code, dotted) if dotted else None
        if found is not None and isinstance(found[1], ast.ClassDef):
            return frozenset({Held(kinds.INSTANCE, found[1], found[0]), Held(kinds.MADE, call, code)}) | differs
        named = _named_call(tail(dotted))
        if named:
            return named
        loaders = frozenset(h for a in call.args[:1] for h in self.of(code, a) if h.kind == kinds.LOADER) if tail(dotted).endswith(("Loader", "Prefetcher", "loader", "prefetcher")) else NONE
        return frozenset({Held(kinds.MADE, call, code)}) | differs | loaders

    def _arguments(self, code: Code, call: ast.Call) -> Objs:
        parts = [*call.args, *(k.value for k in call.keywords if k.arg not in kinds.PLACING)]
        base = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        differs = any(self.differs(code, a) for a in parts) or any(h.kind == kinds.RANKED for b in base for h in self.of(code, b))
        return only(kinds.RANKED) if differs else NONE

    def callee(self, code: Code, call: ast.Call) -> tuple[Code, Function] | None:
        """The function of the program that a call enters: of a module, a method, or a class's ``__init__``."""
        func = call.func
        if isinstance(func, ast.Name):
            home = code.home(code.scope[func], func.id)
            if home is not None and not isinstance(home, (ast.Module, ast.FunctionDef)):
                return None
        dotted = code.dotted(func)
        found = self.program.definition(code, dotted) if dotted and not dotted.startswith(("torch.", "self.")) else None
        if found is not None:
            if isinstance(found[1], ast.ClassDef):
                return self.program.method(found[0], found[1], "__init__")
            if not isinstance(found[0].scope[found[1]], ast.ClassDef):
                return found[0], found[1]
        if isinstance(func, ast.Attribute):
            for owner in self.of(code, func.value):
                if owner.kind == kinds.INSTANCE and isinstance(owner.node, ast.ClassDef) and owner.code is not None:
                    method = self.program.method(owner.code, owner.node, func.attr)
                    if method is not None:
                        return method
            direct = self.program.definition(code, code.dotted(func.value)) if code.dotted(func.value) else None
            if direct is not None and isinstance(direct[1], ast.ClassDef):
                return self.program.method(direct[0], direct[1], func.attr)
        return None


def _by_name(name: str) -> Objs:
    if kinds.RANK_NAME.search(name):
        return only(kinds.RANK)
    if kinds.LOCAL_NAME.search(name):
        return only(kinds.LOCAL_RANK)
    if kinds.WORLD_NAME.search(name):
        return only(kinds.WORLD)
    if kinds.MAIN_NAME.search(name):
        return only(kinds.MAIN)
    return NONE


def _named_call(name: str) -> Objs:
    """What a function out of sight gives, by its name: ``is_main_process()``."""
    return only(kinds.MAIN) if kinds.MAIN_NAME.search(name) and name != "main" else NONE


def _environment(name: object) -> Objs:
    kind = kinds.ENVIRONMENT.get(name) if isinstance(name, str) else None
    return only(kind) if kind else NONE


def _minus_one(expr: ast.expr) -> bool:
    return isinstance(expr, ast.UnaryOp) and isinstance(expr.op, ast.USub)
