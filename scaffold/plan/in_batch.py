"""Losses over the pairs of a batch: where their inputs can be gathered so that every rank sees the whole batch."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from scaffold.roles import calls, pairs
from scaffold.roles.facts import Facts
from scaffold.roles.trace import Frame
from scaffold.roles.values import Const, Map, Seq, Val
from scaffold.source.tree import Source, walk


@dataclass(frozen=True, eq=False)
class InBatch:
    """A loss over pairs: the call that computes it, its arguments to gather, or why they cannot be."""

    source: Source
    node: cst.CSTNode
    arguments: tuple[cst.Arg, ...] = ()
    reason: str = ""


def in_batch_losses(facts: Facts, data: set[object]) -> tuple[InBatch, ...]:
    """Every differentiated comparison of one batch's samples with each other."""
    found: dict[cst.CSTNode, InBatch] = {}
    for event in facts.backwards:
        loss = facts.loss_of(event)
        if not any(t.of in data for t in loss.locals()):
            continue
        for node in sorted((t.at for t in loss.tags if t.kind == "pairs" and t.at is not None), key=id):
            made = _boundary(facts, node, data)
            found.setdefault(made.node, made)
    return tuple(found.values())


def _boundary(facts: Facts, node: cst.CSTNode, data: set[object]) -> InBatch:
    """The outermost call around the comparison that is handed features of the batch."""
    source = next(s for s in facts.project.sources if node in s.parents)
    outer = [c for f in facts.called_from(source.function(node)) for c in reversed([g.call for g in f.stack()])]
    if isinstance(node, cst.Call) and any(i.qualified.startswith(pairs.LIBRARIES) for i in facts.trace.value(node.func).insts()):
        outer.append(node)
    for call in outer:
        if isinstance(call, cst.Call) and any(_is_feature(facts.trace.value(a.value), data) for a in call.args):
            return _gathering(facts, next(s for s in facts.project.sources if call in s.parents), call, data)
    return InBatch(source, node, (), "the samples are compared inside the model or in the training loop itself")


def _is_feature(value: Val, data: set[object]) -> bool:
    return value.tagged("grad") and any(t.of in data for t in value.locals())


def _gathering(facts: Facts, source: Source, call: cst.Call, data: set[object]) -> InBatch:
    values = [(a, facts.trace.value(a.value)) for a in call.args]
    local = [(a, v) for a, v in values if any(t.of in data for t in v.locals())]
    if any(a.star or any(isinstance(o, (Seq, Map)) for o in v.objs) or any(t.kind != "rows" for t in v.locals()) or v.tagged("turned") for a, v in local):
        return InBatch(source, call, (), "it is handed a container of features, or numbers that were reduced before")
    size = _batch_size_inside(facts, call)
    if size:
        return InBatch(source, call, (), f"it reads the batch size from the settings ({size}), not from its inputs")
    return InBatch(source, call, tuple(a for a, _ in local))


def _batch_size_inside(facts: Facts, call: cst.Call) -> str:
    """Text of what a loss reads that also sets the size of the batches."""
    sizes = facts.trace.batch_sizes
    for frame in facts.trace.frames:
        if any(f.call is call for f in frame.stack()) or _constructs(facts, call, frame):
            for node in walk(frame.node):
                if isinstance(node, (cst.Name, cst.Attribute)):
                    value = facts.trace.value(node)
                    if any(o in sizes for o in value.objs if isinstance(o, Const)) or any(t in sizes for t in value.tags if t.kind == "config"):
                        return f"{frame.source.name}:{frame.source.line(node)}"
    return ""


def _constructs(facts: Facts, call: cst.Call, frame: Frame) -> bool:
    """Whether a frame is the ``__init__`` of the loss object that is called."""
    made = [i for i in facts.trace.value(call.func).insts() if calls.role(i) == "module"]
    return frame.owner in made and isinstance(frame.node, cst.FunctionDef) and frame.node.name.value == "__init__"
