"""Gradient accumulation: which micro-batch is the last of its step."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from scaffold.plan.places import statement_in
from scaffold.plan.sync import Sync
from scaffold.roles.facts import Facts
from scaffold.roles.trace import Event
from scaffold.roles.values import Inst
from scaffold.source.tree import Source, Suite, walk


@dataclass(frozen=True)
class Accumulating:
    """Forward to backward of a micro-batch, and a test that holds in the last one of each step."""

    source: Source
    statements: tuple[cst.CSTNode, ...]
    last: str


def accumulating(facts: Facts, sync: Sync) -> Accumulating | None:
    """Where a model accumulates gradients over several backwards, if the last of them can be told beforehand."""
    forward = sync.models[0].live[0]
    backwards = {e.node: e for e in facts.backwards if any(t.kind == "grad" and t.at is forward.node for t in facts.loss_of(e).tags)}
    stepping = {e.node: e for o in sync.optimizers for e in o.steps}
    if len(backwards) != 1 or len(stepping) != 1:
        return None
    backward, step = next(iter(backwards.values())), next(iter(stepping.values()))
    source = forward.source
    if backward.source is not source or step.source is not source or backward.frame.node is not step.frame.node or forward.frame.node is not step.frame.node:
        return None
    suite = source.suite(source.statement(backward.node))
    last = _last_micro_batch(source, backward, step, suite)
    first = statement_in(source, suite, forward.node)
    end = statement_in(source, suite, backward.node)
    if last is None or first is None or end is None or any(isinstance(n, (cst.Break, cst.Continue, cst.Return)) for s in _between(suite, first, end) for n in walk(s)):
        return None
    if not _known_before(source, suite, first, last):
        return None
    return Accumulating(source, tuple(_between(suite, first, end)), last)


def _between(suite: Suite, first: cst.CSTNode, end: cst.CSTNode) -> list[cst.CSTNode]:
    body = list(suite.body)
    return body[body.index(first) : body.index(end) + 1]


def _last_micro_batch(source: Source, backward: Event, step: Event, suite: Suite) -> str | None:
    """A test that holds in the round whose gradients are used: the guard of the step, or the end of the inner loop."""
    for parent in source.ancestors(step.node):
        if isinstance(parent, cst.If) and source.suite(parent) is suite and parent.orelse is None:
            return _inline(source, parent.test)
        if parent is suite:
            return None
    inner = [x for x in backward.loops if x.node not in {y.node for y in step.loops}]
    if len(inner) != 1 or not isinstance(inner[0].node, cst.For) or not isinstance(inner[0].node.target, cst.Name):
        return None
    ranges = [i for i in inner[0].value.insts() if isinstance(i, Inst) and i.qualified == "range"]
    call = inner[0].node.iter
    if not ranges or not isinstance(call, cst.Call) or len(call.args) != 1:
        return None
    count = source.code(call.args[0].value)
    return f"{inner[0].node.target.value} == {count} - 1"


def _inline(source: Source, test: cst.BaseExpression) -> str | None:
    text = source.code(test)
    if "\n" in text or "(" not in text and "%" not in text and "=" not in text:
        return None
    return text if "%" in text or "==" in text else None


def _known_before(source: Source, suite: Suite, first: cst.CSTNode, test: str) -> bool:
    """No name in the test is set between the forward and the step (a counter increased after the backward would shift it)."""
    names = {n.value for n in walk(cst.parse_expression(test)) if isinstance(n, cst.Name)}
    body = list(suite.body)
    for statement in body[body.index(first) :]:
        for node in walk(statement):
            target = node.target if isinstance(node, (cst.AugAssign, cst.AssignTarget)) else None
            if isinstance(target, cst.Name) and target.value in names:
                return False
    return True
