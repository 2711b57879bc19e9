"""One file as the checks see it: its tree, the parent and scope of each node, its imports and functions."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Code:
    """A parsed file. ``name`` is its path as findings show it.

    Raises:
        SyntaxError: the text is not Python 3.
    """

    def __init__(self, path: Path, name: str, text: str) -> None:
        self.path, self.name, self.text = path, name, text
        with warnings.catch_warnings(action="ignore"):
            self.tree = ast.parse(text)
        self.parent: dict[ast.AST, ast.AST] = {}
        self.scope: dict[ast.AST, Scope] = {}
        self.bound: dict[ast.AST, set[str]] = {self.tree: set()}
        self.imports: dict[str, str] = {}
        self.functions: list[Function] = []
        self.classes: list[ast.ClassDef] = []
        self.calls: list[ast.Call] = []
        self.loops: list[ast.For | ast.AsyncFor | ast.While] = []
        self.nodes: list[ast.AST] = []
        self._globals: dict[ast.AST, set[str]] = {}
        self._walk()
        for scope, names in self._globals.items():
            self.bound[scope] -= names
            self.bound[self.tree] |= names

    def _walk(self) -> None:
        stack: list[tuple[ast.AST, Scope]] = [(self.tree, self.tree)]
        while stack:
            node, scope = stack.pop()
            self.nodes.append(node)
            self.scope[node] = scope
            self._note(node, scope)
            inner: Scope = node if isinstance(node, SCOPES) else scope
            children = list(ast.iter_child_nodes(node))
            outside = _outside(node) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else ()
            for child in reversed(children):
                self.parent[child] = node
                stack.append((child, scope if child in outside else inner))

    def _note(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.Call):
            self.calls.append(node)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                self.bound[scope].add(node.id)
        elif isinstance(node, SCOPES):
            self.bound.setdefault(node, set())
            if isinstance(node, ast.ClassDef):
                self.classes.append(node)
                self.bound[scope].add(node.name)
            else:
                self.bound[node] |= {a.arg for a in parameters(node)}
                if not isinstance(node, ast.Lambda):
                    self.functions.append(node)
                    self.bound[scope].add(node.name)
        elif isinstance(node, LOOPS):
            self.loops.append(node)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self._globals.setdefault(scope, set()).update(node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.split(".")[0]
                self.imports[name] = alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                self.imports[alias.asname or alias.name] = f"{base}.{alias.name}" if node.module else f"{base}{alias.name}"

    def home(self, scope: ast.AST, name: str) -> ast.AST | None:
        """The scope that binds ``name`` as seen from ``scope``; none if it is imported or built in."""
        here: ast.AST = scope
        while True:
            if name in self.bound.get(here, ()) and (here is scope or not isinstance(here, ast.ClassDef)):
                return here
            if isinstance(here, ast.Module):
                return None
            here = self.scope[here]

    def dotted(self, expr: ast.AST) -> str:
        """``torch.nn.parallel.DistributedDataParallel`` for whatever the file calls it; empty for what is no dotted name."""
        parts: list[str] = []
        while isinstance(expr, ast.Attribute):
            parts.append(expr.attr)
            expr = expr.value
        if not isinstance(expr, ast.Name):
            return ""
        parts.append(self.imports.get(expr.id, expr.id))
        return ".".join(reversed(parts))

    def called(self, call: ast.Call) -> str:
        """The last part of the name that is called, a method's on any value too: ``step`` of ``optimizers[0].step()``."""
        return tail(self.dotted(call.func)) or (call.func.attr if isinstance(call.func, ast.Attribute) else "")

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Parents, nearest first."""
        while (up := self.parent.get(node)) is not None:
            yield up
            node = up

    def function(self, node: ast.AST) -> Function | None:
        """The function that ``node`` stands in."""
        return next((a for a in self.ancestors(node) if isinstance(a, (ast.FunctionDef, ast.AsyncFunctionDef))), None)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that ``node`` is in."""
        while not isinstance(node, ast.stmt):
            node = self.parent[node]
        return node

    def apart(self, one: ast.AST, other: ast.AST) -> bool:
        """Whether two nodes stand in different arms of one ``if`` or ``try``, so that never both run."""
        arms: dict[ast.AST, ast.AST] = {}
        below = one
        for above in self.ancestors(one):
            arms[above] = below
            below = above
        below = other
        for above in self.ancestors(other):
            if above in arms:
                mine = arms[above]
                return isinstance(above, ast.If) and ((mine in above.body and below in above.orelse) or (mine in above.orelse and below in above.body))
            below = above
        return False

    def loops_of(self, node: ast.AST) -> list[ast.For | ast.AsyncFor | ast.While]:
        """Loops of the same function that ``node`` runs in, innermost first."""
        found: list[ast.For | ast.AsyncFor | ast.While] = []
        below = node
        for above in self.ancestors(node):
            if isinstance(above, SCOPES):
                break
            if isinstance(above, LOOPS) and below in above.body:
                found.append(above)
            below = above
        return found


def _outside(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> set[ast.AST]:
    """What is evaluated where a definition stands: decorators, defaults, bases."""
    if isinstance(node, ast.ClassDef):
        return {*node.decorator_list, *node.bases, *node.keywords}
    return {*node.decorator_list}


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.arg]:
    """Positional and keyword parameters, in order."""
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def is_none(expr: ast.AST) -> bool:
    """Whether an expression is the constant ``None``."""
    return isinstance(expr, ast.Constant) and expr.value is None


def argument(call: ast.Call, name: str, position: int = -1) -> ast.expr | None:
    """The value given for a parameter by name, or at a position."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if 0 <= position < len(call.args) and not any(isinstance(a, ast.Starred) for a in call.args[: position + 1]):
        return call.args[position]
    return None


def module_paths(path: Path, dotted: str) -> Iterator[Path]:
    """Where a module that the file at ``path`` imports may lie: in its folder, or in one of two above it."""
    level = len(dotted) - len(dotted.lstrip("."))
    parts = [p for p in dotted.lstrip(".").split(".") if p]
    parents = path.parents
    for base in [parents[min(level, len(parents)) - 1]] if level else parents[:3]:
        target = base.joinpath(*parts)
        if parts:
            yield target.with_name(target.name + ".py")
        yield target / "__init__.py"


def passed(function: Function, call: ast.Call, name: str) -> ast.expr | None:
    """What a call of ``function`` gives for its parameter ``name``; ``self`` is given by no call."""
    names = [a.arg for a in parameters(function)]
    return argument(call, name, names.index(name) - (names[0] == "self"))


def own(part: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run when ``part`` does: bodies of functions defined in it do not."""
    stack = [part]
    while stack:
        node = stack.pop()
        yield node
        stack += [c for c in ast.iter_child_nodes(node) if not isinstance(c, SCOPES)]


def own_of(parts: list[ast.stmt]) -> Iterator[ast.AST]:
    """:func:`own` of several statements."""
    for part in parts:
        if not isinstance(part, SCOPES):
            yield from own(part)


def tail(dotted: str) -> str:
    """The last part of a dotted name."""
    return dotted.rpartition(".")[2]
