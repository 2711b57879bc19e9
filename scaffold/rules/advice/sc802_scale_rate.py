"""Scale the learning rate with the number of ranks, if ``--scale-lr`` asks for it.

With N times the batch an epoch has 1/N as many steps. ``linear`` multiplies the rates given to optimizers by N, ``sqrt`` by its square root;
schedules that multiply the optimizer's rate need nothing, those with rates of their own (``OneCycleLR``, ``CyclicLR``) are scaled likewise.

Before::

    optimizer = SGD(model.parameters(), lr=0.1)

After::

    optimizer = SGD(model.parameters(), lr=0.1 * world_size)

Reference: Goyal et al., Accurate, Large Minibatch SGD (2017), https://arxiv.org/abs/1706.02677
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.places import argument_at
from scaffold.rules import Diagnostic
from scaffold.source.edits import Author
from scaffold.source.tree import Source, walk

ID = "SC802"
NAME = "scale-rate"
SEVERITY = "W"

_ABSOLUTE = {"OneCycleLR": ((1, "max_lr"),), "CyclicLR": ((1, "base_lr"), (2, "max_lr"))}


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Multiply every rate that is written down."""
    if plan.options.scale_lr == "none":
        return
    done: set[cst.CSTNode] = set()
    for optimizer in plan.facts.optimizers:
        call, source = optimizer.inst.call, optimizer.inst.source
        if not optimizer.steps or source is None or not isinstance(call, cst.Call) or call in done:
            continue
        done.add(call)
        rates = _rates(call)
        for rate in rates:
            _scale(plan, author, source, rate)
        if not rates:
            yield Diagnostic.at(ID, "error", source, call, "no learning rate is written here, so --scale-lr cannot scale it", "give lr=... in the call")
    for event in plan.facts.trace.of_kind("call"):
        positions = _ABSOLUTE.get(event.name.rpartition(".")[2], ()) if event.name.startswith("torch.optim.lr_scheduler.") else ()
        if isinstance(event.node, cst.Call) and event.node not in done and positions:
            done.add(event.node)
            for position, keyword in positions:
                arg = argument_at(event.node, position, keyword)
                if arg is not None:
                    _scale(plan, author, event.source, arg.value)
    if plan.facts.backwards and not plan.facts.steps:
        event = plan.facts.backwards[0]
        yield Diagnostic.at(ID, "error", event.source, event.node, "the parameters are updated by hand, so --scale-lr finds no rate to scale", "scale the rate in the update")
    for event in plan.facts.trace.of_kind("setitem"):
        node = event.node
        if isinstance(node, cst.Subscript) and event.loops and node not in done and event.source.code(node).endswith(('["lr"]', "['lr']")):
            done.add(node)
            yield Diagnostic.at(
                ID, "warning", event.source, node, "the learning rate is set by hand here: --scale-lr does not reach what it is computed from", "scale it there too, or leave --scale-lr none"
            )


def _rates(call: cst.Call) -> list[cst.BaseExpression]:
    """The rate of the call and those of its parameter groups."""
    arg = argument_at(call, 1, "lr")
    groups = [
        element.value
        for given in call.args
        for node in walk(given.value)
        if isinstance(node, cst.Dict)
        for element in node.elements
        if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString) and element.key.evaluated_value == "lr"
    ]
    groups += [
        a.value
        for given in call.args
        for node in walk(given.value)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "dict"
        for a in node.args
        if a.keyword is not None and a.keyword.value == "lr"
    ]
    return [*([arg.value] if arg is not None else []), *groups]


def _scale(plan: Plan, author: Author, source: Source, node: cst.BaseExpression) -> None:
    factor = plan.world_size(author, source, node) + (" ** 0.5" if plan.options.scale_lr == "sqrt" else "")
    tight = isinstance(node, (cst.Name, cst.Attribute, cst.Float, cst.Integer, cst.Call, cst.Subscript)) or bool(node.lpar)
    author.wrap(source, node, "" if tight else "(", f"{'' if tight else ')'} * {factor}")
