"""A last look at converted text: no collective may stand where rank 0 alone comes by."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

_COLLECTIVES = {
    "all_reduce", "all_gather", "all_gather_object", "gather", "gather_object", "broadcast", "broadcast_object_list", "barrier", "reduce",
    "reduce_scatter", "all_to_all", "scatter", "scatter_object_list",
}  # fmt: skip


def guarded_collectives(text: str) -> list[int]:
    """Lines of a converted file with a collective, or a call of a function that makes one, under a test for rank 0."""
    if "get_rank" not in text and "rank == 0" not in text:
        return []
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    makers = _makers(tree)
    return sorted({n.lineno for part in _guarded(tree) for n in _own(part) if isinstance(n, ast.Call) and _name(n.func) in makers | _COLLECTIVES and _is_ours(n, makers)})


def _makers(tree: ast.Module) -> set[str]:
    """Functions of the file that make a collective themselves."""
    return {
        d.name
        for d in tree.body
        if isinstance(d, ast.FunctionDef) and any(isinstance(n, ast.Call) and _name(n.func) in _COLLECTIVES and _is_ours(n, set()) for n in ast.walk(d))
    }


def _is_ours(call: ast.Call, makers: set[str]) -> bool:
    """A method of the same name on something else (``zip.gather``) is no collective."""
    if isinstance(call.func, ast.Name):
        return call.func.id in makers
    return isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in {"dist", "torch.distributed", "torch.distributed.nn.functional"}


def _name(func: ast.expr) -> str:
    return func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""


def _guarded(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and _asks_rank(node.test):
            yield from node.body
        elif isinstance(node, ast.IfExp) and _asks_rank(node.test):
            yield node.body
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            asked = [i for i, v in enumerate(node.values) if _asks_rank(v)]
            yield from node.values[asked[0] + 1 :] if asked else ()


def _asks_rank(test: ast.expr) -> bool:
    """Whether a test holds on rank 0 only (``local_rank`` tests order the processes of a machine and have barriers of their own)."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_asks_rank(v) for v in test.values)
    text = ast.unparse(test)
    return text in {"rank == 0", "dist_rank == 0"} or text.endswith("get_rank() == 0")


def _own(part: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run when ``part`` does: bodies of functions defined in it do not."""
    stack = [part]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            stack += list(ast.iter_child_nodes(node))
