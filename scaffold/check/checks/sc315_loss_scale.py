"""The loss is a mean, or scaled like one.

DDP and FSDP average gradients over ranks. A summed loss therefore comes out N times too small unless it is multiplied by the
world size or divided by a count over all ranks; a mean that is divided by the world size as well comes out N times too small too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.code import Code
from scaffold.check.finding import Finding
from scaffold.check.flow import Where, shared, sources
from scaffold.check.reading import Reading

ID = "SC315"
NAME = "loss-reduction"


def check(reading: Reading) -> Iterator[Finding]:
    """Sums that are not scaled, and means that are scaled twice."""
    if not reading.together:
        return
    for called in reading.program.trains:
        code, call = called
        assert isinstance(call.func, ast.Attribute)
        made = sources(reading.program, code, call.func.value, 1)
        summed = _summed(reading, made)
        scaled = any(reading.values.has(c, n, kinds.WORLD) for c, e in made for n in ast.walk(e) if isinstance(n, (ast.Name, ast.Attribute, ast.Call)))
        counted = any(shared(reading.program, c, n) for c, e in made for n in ast.walk(e))
        if summed is not None and not scaled and not counted:
            yield reading.at(
                ID, "error", summed[0], summed[1], "the loss is a sum over this rank's samples, and DDP averages gradients over ranks: they come out too small by the number of ranks",
                "multiply the loss by the world size before backward, or divide it by the count of all ranks",
            )  # fmt: skip
        times = _times(reading, code, call.func.value) if summed is None and not counted else None
        if times is not None and _is_mean(reading, made):
            yield reading.at(ID, "error", code, times, "a mean is multiplied by the number of ranks: DDP averages already, and gradients come out too large", "leave the factor out")
        divided = _divided(reading, made) if summed is None and not counted else None
        if divided is not None:
            yield reading.at(ID, "error", divided[0], divided[1], "the loss is divided by the number of ranks, and DDP averages once more: gradients come out too small", "leave the division out")


def _summed(reading: Reading, made: list[Where]) -> Where | None:
    for code, expr in made:
        for node in ast.walk(expr):
            if not isinstance(node, ast.Call):
                continue
            if _asks_for_sum(node):
                return code, node
            for held in reading.values.of(code, node.func):
                if held.kind == kinds.MADE and isinstance(held.node, ast.Call) and _asks_for_sum(held.node) and _is_loss(held.code, held.node):
                    return code, node
    return None


def _asks_for_sum(call: ast.Call) -> bool:
    return any(k.arg == "reduction" and isinstance(k.value, ast.Constant) and k.value.value == "sum" for k in call.keywords) or any(
        k.arg == "size_average" and isinstance(k.value, ast.Constant) and k.value.value is False for k in call.keywords
    )


def _is_loss(code: Code | None, call: ast.Call) -> bool:
    return code is not None and code.dotted(call.func).startswith("torch.")


def _times(reading: Reading, code: Code, expr: ast.expr) -> ast.BinOp | None:
    """A multiplication by the world size in what ``backward`` is called on."""
    return next((n for n in ast.walk(expr) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult) and (_is_world(reading, code, n.left) or _is_world(reading, code, n.right))), None)


def _is_mean(reading: Reading, made: list[Where]) -> bool:
    """The loss is one of torch's own functions, which take a mean, and no sum is seen."""
    calls = [(c, n) for c, e in made for n in ast.walk(e) if isinstance(n, ast.Call)]
    if any("sum" in ast.unparse(n.func).rpartition(".")[2] for _, n in calls):
        return False
    return any(c.dotted(n.func).startswith("torch.nn.functional.") and ("loss" in c.dotted(n.func) or "entropy" in c.dotted(n.func)) and not any(k.arg == "reduction" for k in n.keywords) for c, n in calls)


def _divided(reading: Reading, made: list[Where]) -> Where | None:
    for code, expr in made:
        for node in ast.walk(expr):
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv)) and _is_world(reading, code, node.right):
                return code, node
    return None


def _is_world(reading: Reading, code: Code, expr: ast.expr) -> bool:
    return isinstance(expr, (ast.Name, ast.Attribute, ast.Call)) and {h.kind for h in reading.values.of(code, expr)} == {kinds.WORLD}
