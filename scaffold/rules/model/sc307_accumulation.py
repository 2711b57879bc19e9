"""Reduce gradients once per step: ``no_sync`` for the micro-batches before the last.

With gradient accumulation DDP all-reduces after every micro-batch, k times the traffic for the same result. ``no_sync`` must surround the
forward as well as the backward; the last micro-batch of each step stays outside it.

Before::

    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / k
        loss.backward()
        if (i + 1) % k == 0:
            optimizer.step()

After::

    for i, (x, y) in enumerate(loader):
        with nullcontext() if (i + 1) % k == 0 else ddp_model.no_sync():
            loss = criterion(ddp_model(x), y) / k
            loss.backward()
        if (i + 1) % k == 0:
            optimizer.step()

Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html#torch.nn.parallel.DistributedDataParallel.no_sync
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.places import statement_in
from scaffold.plan.sync import Sync
from scaffold.roles.trace import Event
from scaffold.roles.values import Inst
from scaffold.rules import Diagnostic
from scaffold.source.edits import Author
from scaffold.source.tree import Source, Suite, walk

ID = "SC307"
NAME = "accumulation"
SEVERITY = "S"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Put forward and backward of accumulating micro-batches under ``no_sync``."""
    for sync in plan.syncs:
        if sync.mode == "ddp" and sync.storage is not None and len(sync.replacements) == 1:
            _accumulate(plan, author, sync)
    return
    yield


def _accumulate(plan: Plan, author: Author, sync: Sync) -> None:
    facts = plan.facts
    forward = sync.models[0].live[0]
    backwards = {e.node: e for e in facts.backwards if any(t.kind == "grad" and t.at is forward.node for t in facts.loss_of(e).tags)}
    stepping = {e.node: e for o in sync.optimizers for e in o.steps}
    if len(backwards) != 1 or len(stepping) != 1:
        return
    backward, step = next(iter(backwards.values())), next(iter(stepping.values()))
    source = forward.source
    if backward.source is not source or step.source is not source or backward.frame.node is not step.frame.node or forward.frame.node is not step.frame.node:
        return
    suite = source.suite(source.statement(backward.node))
    last = _last_micro_batch(source, backward, step, suite)
    first = statement_in(source, suite, forward.node)
    end = statement_in(source, suite, backward.node)
    if last is None or first is None or end is None or any(isinstance(n, (cst.Break, cst.Continue, cst.Return)) for s in _between(suite, first, end) for n in walk(s)):
        return
    if not _known_before(source, suite, first, last):
        return
    replaced = sync.replacements[0]
    prefix = f"{source.code(replaced.node.value)}." if isinstance(replaced.node, cst.Attribute) else ""
    name = prefix + plan.wrapper_in(sync, source)
    author.need(source, "from contextlib import nullcontext")
    author.under(source, _between(suite, first, end), f"with nullcontext() if {last} else {name}.no_sync():")


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
