"""Numbers of batches that a script computes itself, as ``len(data) // batch_size``: with N ranks an epoch has 1/N as many steps."""

from __future__ import annotations

from functools import lru_cache

import libcst as cst

from scaffold.plan.cursors import cuttings
from scaffold.roles.facts import Facts
from scaffold.roles.values import NOTHING, Const, Inst, Val
from scaffold.source.tree import Source, walk

_LAYOUT = {"view", "reshape", "narrow", "split", "chunk", "resize", "resize_", "expand", "unfold"}


@lru_cache(maxsize=8)
def counted_steps(facts: Facts) -> dict[cst.BinaryOperation, Source]:
    """The divisions whose result counts the steps of training: what ends a divided range, and a training set's length by the batch size."""
    laid_out = _layouts(facts)
    wanted = {n for inst in facts.divided_ranges for v in inst.args for n in _divisions(v)}
    wanted |= {n for n in _all_divisions(facts) if _is_batch_size(facts, n) and not _evaluated_only(facts, n)}
    return {n: source for source in facts.project.sources for n in source.nodes if isinstance(n, cst.BinaryOperation) and n in wanted - laid_out}


def _divisions(value: Val) -> set[cst.CSTNode]:
    return {t.at for t in value.tags if t.kind == "steps" and t.at is not None}


def _all_divisions(facts: Facts) -> set[cst.CSTNode]:
    return {n for v in facts.trace.values.values() for n in _divisions(v)}


def _is_batch_size(facts: Facts, node: cst.CSTNode) -> bool:
    assert isinstance(node, cst.BinaryOperation)
    return _is_size(facts, node.right)


def _is_size(facts: Facts, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, cst.Multiply) and (_is_size(facts, node.left) or _is_size(facts, node.right))
    value, sizes = facts.trace.value(node), set(facts.trace.batch_sizes)
    for inst in facts.divided_ranges:
        sizes.update(*((*v.objs, *v.tags) for v in inst.args[2:]))
    for cut in cuttings(facts):
        sizes.update(*((*v.objs, *v.tags) for source, n in cut.sizes if n in cut.leaves for v in [facts.trace.value(n)]))
    numbers = {o.value for o in sizes if isinstance(o, Const)}
    return any(n in numbers for n in value.consts()) or any(t in sizes for t in value.tags)


def _evaluated_only(facts: Facts, node: cst.CSTNode) -> bool:
    """Whether the length is that of a data set that no training loader reads."""
    assert isinstance(node, cst.BinaryOperation)
    measured = {t.of for t in facts.trace.value(node.left).tags if t.kind == "samples"}
    trained: set[object] = set()
    stack = [i for x in facts.loaders if x.role == "train" for v in (*x.inst.args[:1], x.inst.kwargs.get("dataset", NOTHING)) for i in v.insts()]
    while stack:
        dataset = stack.pop()
        if dataset not in trained:
            trained.add(dataset)
            stack += [i for v in (*dataset.args, *dataset.kwargs.values()) for i in v.insts()]
    return bool(measured) and not measured & trained


def _layouts(facts: Facts) -> set[cst.CSTNode]:
    """Divisions whose result shapes a tensor or bounds a slice: lengths of streams, not steps."""
    found: set[cst.CSTNode] = set()
    for event in facts.trace.of_kind("call"):
        if event.name.rpartition(".")[2] in _LAYOUT:
            found |= {n for v in (*event.args, *event.kwargs.values()) for n in _divisions(v)}
    for source in facts.project.sources:
        for node in source.nodes:
            if isinstance(node, cst.Slice):
                found |= {n for b in (node.lower, node.upper) if b is not None for x in walk(b) for n in _divisions(facts.trace.value(x))}
    return found


def ends(facts: Facts, stop: Inst) -> bool:
    """Whether a range ends at such a number of steps."""
    return any(n in counted_steps(facts) for v in stop.args for n in _divisions(v))
