"""How each differentiated loss is made right for averaged gradients: decided once, for the rule and for all that reads the loss."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import libcst as cst

from scaffold.plan.carried import local_kinds
from scaffold.plan.in_batch import InBatch, in_batch_losses
from scaffold.roles import api, calls
from scaffold.roles.facts import Facts
from scaffold.roles.trace import Event
from scaffold.roles.values import Inst, Val
from scaffold.source.project import Project
from scaffold.source.tree import Source, walk

_PASSES = 4


@dataclass
class Losses:
    """Expressions to wrap, each with its file.

    ``scaled``: a differentiated sum, times the world size; ``terms``: a sum among the terms of a loss, likewise; ``whole``: a sum or
    mean that enters a nonlinear computation, added up over ranks with gradients; ``divisors``: averaged over ranks; ``weighted``: a mean
    over unequal weight, with the text of this rank's weight; ``in_batch``: see :mod:`scaffold.plan.in_batch`; ``unclear``: backward
    passes from a loss that none of this makes right, with the kinds it is made of.
    """

    scaled: dict[cst.BaseExpression, Source] = field(default_factory=dict)
    terms: dict[cst.BaseExpression, Source] = field(default_factory=dict)
    whole: dict[cst.BaseExpression, tuple[Source, str, bool]] = field(default_factory=dict)
    divisors: dict[cst.BaseExpression, Source] = field(default_factory=dict)
    weighted: dict[cst.BaseExpression, tuple[Source, str]] = field(default_factory=dict)
    in_batch: tuple[InBatch, ...] = ()
    unclear: dict[cst.CSTNode, tuple[Source, set[str]]] = field(default_factory=dict)

    def functions(self) -> set[cst.CSTNode]:
        """The functions that will hold a collective: no loop that ranks run unequally often may call them."""
        placed: list[tuple[cst.CSTNode, Source]] = [*self.divisors.items(), *((x.node, x.source) for x in self.in_batch)]
        placed += [(n, s) for n, (s, _, _) in self.whole.items()] + [(n, s) for n, (s, _) in self.weighted.items()]
        return {f for n, s in placed if isinstance(f := s.function(n), cst.FunctionDef)}

    def changed(self) -> dict[cst.CSTNode, str]:
        """What the wrapped expressions become, for the next look at the script."""
        marks: dict[cst.CSTNode, str] = dict.fromkeys(self.terms, "mean")
        marks |= dict.fromkeys(self.whole, "whole")
        marks |= {a.value: "whole" for loss in self.in_batch for a in loss.arguments}
        return marks


def plan_losses(project: Project, facts: Facts) -> tuple[Losses, Facts]:
    """Decide on every loss; gives back the facts as they will be with those edits in place."""
    losses = Losses()
    data = {*facts.train_data, *facts.divided_ranges, *facts.divided_cursors}
    losses.in_batch = in_batch_losses(facts, data)
    applied: dict[cst.CSTNode, str] = {}
    for _ in range(_PASSES):
        _find(losses, facts, data)
        if losses.changed() == applied:
            break
        applied = losses.changed()
        facts = Facts.of(project, {}, applied, facts)
    return losses, facts


def _find(losses: Losses, facts: Facts, data: set[object]) -> None:
    losses.unclear = {}
    for event in facts.backwards:
        if not _make_whole(losses, facts, event, data, "nonlinear"):
            _backward(losses, facts, event, data)
            if event.node in losses.unclear:
                _make_whole(losses, facts, event, data, "added")
    for event in facts.trace.of_kind("weighted"):
        if isinstance(event.node, cst.BaseExpression) and any(t.of in data for t in event.value.locals()):
            losses.divisors[event.node] = event.source
    for event, weight in _weighted(facts, data):
        if isinstance(event.node, cst.BaseExpression):
            losses.weighted[event.node] = (event.source, weight)


def _make_whole(losses: Losses, facts: Facts, event: Event, data: set[object], how: str) -> bool:
    """Add up over ranks the sums and means that entered a computation of the loss; whether there were any."""
    found = False
    for node in [t.at for t in facts.loss_of(event).tags if t.kind == "curved" and t.of == how]:
        if isinstance(node, cst.BaseExpression) and (kinds := local_kinds(facts, node, data)) in ({"sum"}, {"mean"}):
            source = next(s for s in facts.project.sources if node in s.parents)
            losses.whole[node] = (source, next(iter(kinds)), _without_grad_too(facts, source, node))
            found = True
    return found


def _without_grad_too(facts: Facts, source: Source, node: cst.CSTNode) -> bool:
    """Whether the code at ``node`` is also run without gradients, to evaluate."""
    return any(not f.grad for f in facts.called_from(source.function(node)))


def _backward(losses: Losses, facts: Facts, event: Event, data: set[object]) -> None:
    node, source = event.node, event.source
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return
    loss = node.args[0].value if event.name == "torch.autograd.backward" and node.args else node.func.value
    kinds = {t.kind for e in facts.backwards if e.node is node for t in facts.loss_of(e).locals() if t.of in data}
    if kinds <= {"mean", "count", "rows"}:
        return
    if kinds == {"sum"}:
        losses.scaled[loss] = source
        return
    terms = _terms(facts, source, loss, node, data)
    if terms is not None:
        losses.terms |= dict.fromkeys(terms, source)
    else:
        losses.unclear[node] = (source, kinds)


def _terms(facts: Facts, source: Source, loss: cst.BaseExpression, backward: cst.CSTNode, data: set[object]) -> list[cst.BaseExpression] | None:
    """The sums among the terms of a loss that adds means and sums; None if a term is neither."""
    expression = _definition(source, loss, backward)
    if expression is None:
        return None
    sums: list[cst.BaseExpression] = []
    stack = [expression]
    while stack:
        term = stack.pop()
        kinds = local_kinds(facts, term, data)
        if kinds == {"sum"}:
            sums.append(term)
        elif kinds <= {"mean"}:
            continue
        elif isinstance(term, cst.BinaryOperation) and isinstance(term.operator, (cst.Add, cst.Subtract)):
            stack += [term.left, term.right]
        elif isinstance(term, cst.BinaryOperation) and isinstance(term.operator, (cst.Multiply, cst.Divide)):
            sides = [s for s in (term.left, term.right) if local_kinds(facts, s, data)]
            if len(sides) != 1:
                return None
            stack.append(sides[0])
        else:
            return None
    return sums or None


def _definition(source: Source, loss: cst.BaseExpression, before: cst.CSTNode) -> cst.BaseExpression | None:
    if not isinstance(loss, cst.Name):
        return loss if isinstance(loss, cst.BinaryOperation) else None
    function = source.function(before)
    found = None
    for node in walk(function):
        if isinstance(node, cst.Assign) and source.span(node)[0] < source.span(before)[0]:
            if any(isinstance(t.target, cst.Name) and t.target.value == loss.value for t in node.targets):
                found = node.value
    return found


def _weighted(facts: Facts, data: set[object]) -> Iterable[tuple[Event, str]]:
    """Losses whose mean is taken over unequal weight, with the text of this rank's weight."""
    for event in facts.trace.of_kind("forward", "call"):
        if not event.grad or not isinstance(event.node, cst.Call) or not _local(event.result, data) or not event.result.tagged("grad"):
            continue
        source, node = event.source, event.node
        ragged = [v for v in (*event.args, *event.kwargs.values()) if v.tagged("ragged")]
        if event.kind == "forward":
            inst = next((i for i in event.value.insts() if _loss_name(i)), None)
            if inst is None:
                continue
            reduction, weighted = calls.loss_settings(_loss_name(inst), inst.args, inst.kwargs)
            name = source.code(node.func)
            ignore = f"{name}.ignore_index" if "ignore_index" in inst.kwargs else None
            weight = f"{name}.weight" if "weight" in inst.kwargs or inst.args else None
        else:
            short = event.name.rpartition(".")[2]
            if short in api.TENSOR_MEANS and event.value.tagged("ragged") and isinstance(node.func, cst.Attribute) and not node.args:
                yield event, f"{_tight(source.code(node.func.value))}.numel()"
                continue
            if short not in api.LOSSES:
                continue
            reduction, weighted = calls.loss_settings(short, event.args, event.kwargs)
            texts = {k: source.code(a.value) for k in ("weight", "ignore_index") for a in node.args if a.keyword is not None and a.keyword.value == k}
            ignore, weight = texts.get("ignore_index"), texts.get("weight")
        positional = [a for a in node.args if a.keyword is None]
        target = next((a for a in node.args if a.keyword is not None and a.keyword.value == "target"), positional[1] if len(positional) > 1 else None)
        if reduction != "mean" or target is None:
            continue
        if weighted and (ignore or weight):
            yield event, _weight_text(source.code(target.value), ignore, weight)
        elif ragged:
            yield event, f"{_tight(source.code(target.value))}.numel()"


def _local(value: Val, data: set[object]) -> bool:
    return any(t.of in data for t in value.locals())


def _weight_text(target: str, ignore: str | None, weight: str | None) -> str:
    if weight and ignore:
        return f"{weight}[({target})[({target}) != {ignore}]].sum()"
    if weight:
        return f"{weight}[{target}].sum()"
    return f"({_tight(target)} != {ignore}).sum()"


def _tight(text: str) -> str:
    loose = (cst.BinaryOperation, cst.Comparison, cst.IfExp, cst.BooleanOperation, cst.UnaryOperation)
    return f"({text})" if isinstance(cst.parse_expression(text), loose) else text


def _loss_name(inst: Inst) -> str:
    return next((api.LOSS_CLASSES.get(b.rpartition(".")[2], "") for b in inst.bases() if b.startswith("torch.nn.")), "")
