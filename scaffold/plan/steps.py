"""Numbers of batches that a script computes itself, as ``len(data) // batch_size``: with N ranks an epoch has 1/N as many steps."""

from __future__ import annotations

from functools import lru_cache

import libcst as cst

from scaffold.plan.outputs import outputs
from scaffold.roles import calls
from scaffold.roles.facts import Facts
from scaffold.roles.values import Const, Inst, Val
from scaffold.source.tree import Source, walk

_LAYOUT = {"view", "reshape", "narrow", "split", "chunk", "resize", "resize_", "expand", "unfold"}


@lru_cache(maxsize=8)
def counted_steps(facts: Facts) -> dict[cst.BinaryOperation, Source]:
    """The divisions whose result counts the steps of training: it ends a divided range, averages over steps, or times a schedule."""
    laid_out = _layouts(facts)
    wanted: set[cst.CSTNode] = set()
    for inst in facts.divided_ranges:
        wanted |= {n for v in inst.args for n in _divisions(v)}
    by_batch = {n for n in _all_divisions(facts) if _is_batch_size(facts, n)}
    for event in facts.trace.of_kind("call"):
        if any(calls.role(i) == "scheduler" and i.call is event.node for i in event.result.insts()):
            wanted |= {n for v in (*event.args, *event.kwargs.values()) for n in _divisions(v)} & by_batch
    wanted |= {n for n in by_batch if _averages(facts, n)}
    for output in outputs(facts):
        if output.kind in {"print", "log", "bar-text"}:
            wanted |= {n for a in output.node.args for x in walk(a.value) for n in _divisions(facts.trace.value(x))} & by_batch
    return {n: source for source in facts.project.sources for n in source.nodes if isinstance(n, cst.BinaryOperation) and n in wanted - laid_out}


def counted_samples(facts: Facts, data: set[object]) -> dict[cst.BinaryOperation, Source]:
    """Products of a step's number and the batch size that are shown: how many samples one rank has seen."""
    found: dict[cst.BinaryOperation, Source] = {}
    for output in outputs(facts):
        for node in walk(output.node):
            if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
                for number, size in ((node.left, node.right), (node.right, node.left)):
                    steps = {t.of for t in facts.trace.value(number).tags if t.kind == "step"}
                    if steps & data and _is_size(facts, size):
                        found[node] = output.source
    return found


def _divisions(value: Val) -> set[cst.CSTNode]:
    return {t.at for t in value.tags if t.kind == "steps" and t.at is not None}


def _all_divisions(facts: Facts) -> set[cst.CSTNode]:
    return {n for v in facts.trace.values.values() for n in _divisions(v)}


def _is_batch_size(facts: Facts, node: cst.CSTNode) -> bool:
    assert isinstance(node, cst.BinaryOperation)
    return _is_size(facts, node.right)


def _is_size(facts: Facts, node: cst.CSTNode) -> bool:
    value, sizes = facts.trace.value(node), set(facts.trace.batch_sizes)
    for inst in facts.divided_ranges:
        sizes.update(*((*v.objs, *v.tags) for v in inst.args[2:]))
    numbers = {o.value for o in sizes if isinstance(o, Const)}
    return any(n in numbers for n in value.consts()) or any(t in sizes for t in value.tags)


def _averages(facts: Facts, node: cst.CSTNode) -> bool:
    """Whether something is divided by the number of steps."""
    return any(
        isinstance(n, (cst.BinaryOperation, cst.AugAssign))
        and isinstance(n.operator, (cst.Divide, cst.DivideAssign))
        and node in _divisions(facts.trace.value(n.right if isinstance(n, cst.BinaryOperation) else n.value))
        for source in facts.project.sources
        for n in source.nodes
    )


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
