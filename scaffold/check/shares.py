"""Whether a loader gives each rank its part of the data."""

from __future__ import annotations

import ast
from enum import Enum

from scaffold.check import kinds
from scaffold.check.code import Code, argument, is_none, parameters, tail
from scaffold.check.reading import Reading
from scaffold.check.values import Held

RANDOM = {"RandomSampler", "WeightedRandomSampler", "SubsetRandomSampler", "SequentialSampler", "BatchSampler"}


class Share(Enum):
    """What a rank reads."""

    PART = "part"
    WHOLE = "whole"
    UNKNOWN = "unknown"


def share(reading: Reading, loader: Held) -> Share:
    """What each rank gets of a loader."""
    call, code = loader.node, loader.code
    if not isinstance(call, ast.Call) or code is None:
        return Share.UNKNOWN
    for name, position in (("sampler", 3), ("batch_sampler", 4)):
        sampler = argument(call, name, position)
        if sampler is not None and not is_none(sampler):
            return _sampler(reading, code, sampler)
    if any(k.arg is None for k in call.keywords) and not _no_sampler(reading, code, call):
        return Share.UNKNOWN
    data = argument(call, "dataset", 0)
    if data is None:
        return Share.UNKNOWN
    if reading.values.differs(code, data):
        return Share.PART
    if any(h.kind in {kinds.SAMPLER, kinds.LOADER} for h in reading.values.of(code, data)):
        return Share.UNKNOWN
    if _iterable(reading, code, data):
        return Share.UNKNOWN
    return Share.WHOLE


def samplers(reading: Reading, loader: Held) -> list[ast.Call]:
    """The calls that make the samplers a loader is given."""
    if loader.code is None or not isinstance(loader.node, ast.Call):
        return []
    sampler = argument(loader.node, "sampler", 3) or argument(loader.node, "batch_sampler", 4)
    return [h.node for h in reading.values.all(loader.code, sampler, kinds.SAMPLER) if isinstance(h.node, ast.Call)] if sampler is not None else []


def _no_sampler(reading: Reading, code: Code, call: ast.Call) -> bool:
    """Whether the dictionaries that a loader is given by ``**`` are made in this file, and the file puts no sampler in one."""
    given = [k.value for k in call.keywords if k.arg is None]
    if not all(isinstance(g, (ast.Name, ast.Attribute, ast.Dict)) for g in given):
        return False
    function = code.function(call)
    own = function.args.kwarg.arg if function is not None and function.args.kwarg is not None else ""
    named = {a.arg for a in parameters(function)} if function is not None else set()
    if any(isinstance(g, ast.Name) and g.id in {own, *named} for g in given):
        return False
    words = {"sampler", "batch_sampler"}
    return not any(
        (isinstance(n, ast.Constant) and n.value in words)
        or (isinstance(n, ast.Call) and tail(code.dotted(n.func)) not in {"DataLoader"} and any(k.arg in words for k in n.keywords))
        for n in code.nodes
    )


def _sampler(reading: Reading, code: Code, sampler: ast.expr) -> Share:
    held = reading.values.of(code, sampler)
    if any(h.kind in {kinds.SAMPLER, kinds.RANKED, kinds.RANK} for h in held):
        return Share.PART
    made = [h for h in held if h.kind in {kinds.MADE, kinds.INSTANCE}]
    if not made:
        return Share.UNKNOWN
    return Share.WHOLE if all(_draws_all(reading, h) for h in made) else Share.UNKNOWN


def _draws_all(reading: Reading, held: Held) -> bool:
    """A sampler of torch's that knows no rank, or one of the program's whose class has no word of ranks."""
    if held.kind == kinds.INSTANCE and isinstance(held.node, ast.ClassDef) and held.code is not None:
        return not any(word in ast.unparse(held.node) for word in ("rank", "replica", "world", "dist")) and not any("Distributed" in ast.unparse(b) for b in held.node.bases)
    if isinstance(held.node, ast.Call) and held.code is not None:
        name = tail(held.code.dotted(held.node.func))
        found = reading.program.definition(held.code, held.code.dotted(held.node.func))
        if found is not None:
            return True
        if name in RANDOM:
            inner = held.node.args[0] if held.node.args else None
            return not (name == "BatchSampler" and inner is not None and reading.values.has(held.code, inner, kinds.SAMPLER, kinds.RANKED))
    return False


def _iterable(reading: Reading, code: Code, data: ast.expr) -> bool:
    """Iterable data sets read themselves: whether they know their rank is asked elsewhere."""
    for held in reading.values.of(code, data):
        if held.kind == kinds.INSTANCE and isinstance(held.node, ast.ClassDef) and held.code is not None:
            names = {i.name for _, c in reading.program.base(held.code, held.node) for i in c.body if isinstance(i, ast.FunctionDef)}
            bases = {ast.unparse(b) for _, c in reading.program.base(held.code, held.node) for b in c.bases}
            if "__getitem__" not in names and ("__iter__" in names or any("Iterable" in b for b in bases)):
                return True
    return False
