"""What each rank measured on its part of the evaluation data is put together.

Sums and counts must be added over the ranks before they are divided: one rank's number is not the data set's, and a mean of
the ranks' means is not their mean. ``DistributedSampler`` repeats samples to give ranks equal parts; these count twice. Data that
every rank reads whole must not be added up.
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.code import Code, argument, own_of, tail
from scaffold.check.finding import Finding
from scaffold.check.flow import assigned, body_of, carried, is_shared_later, read, shared, sources, text_of
from scaffold.check.loops import AnyLoop, evaluates
from scaffold.check.reading import Reading
from scaffold.check.shares import Share, samplers, share
from scaffold.check.values import Held

ID = "SC501"
NAME = "shard-evaluation"
_CUTS_PADDING = re.compile(r"world_size\)?\s*<\s*len\(|drop_last|\[:\s*len\(|truncat|gather_for_metrics|total_size", re.I)


def check(reading: Reading) -> Iterator[Finding]:
    """Evaluation loops over parts whose results are not put together, or over all whose results are."""
    if not (reading.starts or reading.wraps):
        return
    for loop, code in reading.loops.evaluations.items():
        if not evaluates(code, loop) or reading.alone(code, loop):
            continue
        held = reading.loops.loaders(code, loop)
        parts = {share(reading, h) for h in held}
        names = _results(reading, code, loop)
        if not names:
            continue
        function = code.function(loop)
        alone = sorted(n for n in names if not is_shared_later(reading.program, code, {n}, function))
        together = len(alone) < len(names) or reading.program.metrics
        if parts == {Share.PART} and not together:
            yield reading.at(ID, "error", code, loop, "each rank evaluates its part of the data, and the result is never put together: what is shown is one rank's number", "all_reduce sums and counts, then divide")
        elif parts == {Share.PART} and alone and not reading.program.metrics:
            yield reading.at(ID, "warning", code, loop, f"each rank evaluates its part of the data, and {', '.join(alone)} is never put together, though other results are", "all_reduce it as well")
        elif parts == {Share.WHOLE} and together and not reading.program.metrics and _added_up(reading, code, names):
            yield reading.at(ID, "warning", code, loop, "every rank evaluates all of the data and the results are added up: each sample counts once for every rank", "give the ranks parts of the data, or leave the sum out")
        elif parts == {Share.PART}:
            yield from _means(reading, code, loop, names)
            if any(_pads(reading, h) for h in held) and not any(_CUTS_PADDING.search(c.text) for c in reading.program.codes):
                yield reading.at(ID, "warning", code, loop, "DistributedSampler repeats samples where the data does not divide evenly: they count twice in the result", "sampler=range(rank, len(dataset), world_size) gives each rank its part without repeats")


def _results(reading: Reading, code: Code, loop: AnyLoop) -> set[str]:
    """Names that a loop adds this rank's numbers to: not those that go through a collective first."""
    found: dict[str, list[ast.expr]] = {}
    for node in own_of(loop.body):
        if isinstance(node, ast.AugAssign):
            found.setdefault(text_of(node.target), []).append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"append", "extend", "update", "add_", "add"}:
            found.setdefault(text_of(node.func.value), []).extend(node.args)
        elif isinstance(node, ast.Assign):
            for target, value in assigned(node):
                if text_of(target) and text_of(target) in read(value):
                    found.setdefault(text_of(target), []).append(value)
    used = {name for node in own_of(body_of(code, loop)) if getattr(node, "lineno", 0) > (loop.end_lineno or 0) for name in (read(node) if isinstance(node, (ast.Name, ast.Attribute)) else ())}
    return {n for n, values in found.items() if n and (n in used or "." in n) and not any(_shared_already(reading, code, v) for v in values)}


def _shared_already(reading: Reading, code: Code, value: ast.expr) -> bool:
    given = reading.shared_names.get(code.function(value) or code.tree, set())
    return any(shared(reading.program, c, n) for c, e in sources(reading.program, code, value, 1) for n in ast.walk(e)) or bool(read(value) & given)


def _added_up(reading: Reading, code: Code, names: set[str]) -> bool:
    """An all-reduce, in the function of the loop, that adds and is not divided by the world size."""
    function = next((f for f in code.functions if any(text_of(n) in names for n in ast.walk(f) if isinstance(n, ast.Name))), None)
    body = function.body if function is not None else code.tree.body
    reductions = [n for n in own_of(body) if isinstance(n, ast.Call) and shared(reading.program, code, n) and any(read(a) & names for a in n.args)]
    divided = any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div) and reading.values.has(code, n.right, kinds.WORLD) for n in own_of(body))
    averaged = any("AVG" in ast.unparse(n) or "mean" in ast.unparse(n.func).lower() or "gather" in ast.unparse(n.func).lower() or "broadcast" in ast.unparse(n.func).lower() for n in reductions)
    over_all = any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div) and "len(" in ast.unparse(n.right) for n in own_of(body))
    return bool(reductions) and not divided and not averaged and over_all


def _means(reading: Reading, code: Code, loop: AnyLoop, names: set[str]) -> Iterator[Finding]:
    """``x = total / count`` of one rank, then averaged over ranks."""
    body = body_of(code, loop)
    yield from _mixed(reading, code, names, body)
    every = carried(reading.program, code, names, code.function(loop))
    quotients = {text_of(t): t.lineno for n in own_of(body) for t, v in assigned(n) if isinstance(v, ast.BinOp) and isinstance(v.op, ast.Div) and read(v.left) & every and not reading.values.has(code, v.right, kinds.WORLD)}
    for node in own_of(body):
        if not isinstance(node, ast.Call) or not shared(reading.program, code, node) or "gather" in tail(code.dotted(node.func)):
            continue
        given = next((q for q in quotients if node.args and q in read(node.args[0]) and quotients[q] <= node.lineno), None)
        if given is not None and _averages(reading, code, node, body):
            yield reading.at(ID, "warning", code, node, f"the mean of the ranks' means ({given}) is not the mean where ranks have unequal parts", "all_reduce the sums and the counts, then divide")


def _mixed(reading: Reading, code: Code, names: set[str], body: list[ast.stmt]) -> Iterator[Finding]:
    """A sum or count that is averaged over the ranks, though it is divided by the size of the data, or another is added up."""
    means: dict[str, ast.Call] = {}
    sums: set[str] = set()
    for node in own_of(body):
        name = next((n for n in names if node.args and text_of(node.args[0]) == n), "") if isinstance(node, ast.Call) and shared(reading.program, code, node) else ""
        if name and isinstance(node, ast.Call) and "gather" not in ast.unparse(node.func):
            averaging = "AVG" in ast.unparse(node) or "mean" in ast.unparse(node.func).lower() or "avg" in ast.unparse(node.func).lower()
            if averaging:
                means[name] = node
            else:
                sums.add(name)
    for name, node in means.items():
        whole = any(
            (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div) and name in read(n.left) and "len(" in ast.unparse(n.right) and "dataset" in ast.unparse(n.right))
            or (isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Div) and text_of(n.target) == name and "dataset" in ast.unparse(n.value))
            for n in own_of(body)
        )
        if whole or sums - means.keys():
            yield reading.at(ID, "warning", code, node, f"{name} is averaged over the ranks where it must be added up: it is a sum over one rank's part", "all_reduce it with ReduceOp.SUM")


def _averages(reading: Reading, code: Code, call: ast.Call, body: list[ast.stmt]) -> bool:
    if "AVG" in ast.unparse(call) or "mean" in ast.unparse(call.func).lower() or "average" in ast.unparse(call.func).lower():
        return True
    return any(isinstance(n, (ast.BinOp, ast.AugAssign)) and isinstance(n.op, ast.Div) and reading.values.has(code, n.right if isinstance(n, ast.BinOp) else n.value, kinds.WORLD) for n in own_of(body))


def _pads(reading: Reading, held: Held) -> bool:
    return any(argument(s, "drop_last", 5) is None for s in samplers(reading, held))
