"""Scale losses that are sums, and weigh means over unequal counts.

DDP averages gradients over ranks. That equals one process on the whole batch only for a mean over equal shares. A sum-reduced loss comes out
1/N too small; a mean over tokens, masked entries or class weights is a mean of means. A sum is multiplied by the world size; a weighted mean
is multiplied by this rank's share of the weight, so that the average over ranks is the whole batch's mean.

Before::

    loss = F.mse_loss(output, target, reduction="sum")
    loss.backward()

After::

    loss = F.mse_loss(output, target, reduction="sum")
    (loss * world_size).backward()  # DDP averages over ranks, the loss is a sum

Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.carried import local_kinds
from scaffold.roles import api, calls
from scaffold.roles.facts import Facts
from scaffold.roles.trace import Event
from scaffold.roles.values import Inst, Val
from scaffold.rules import Diagnostic
from scaffold.rules.common import all_reduce_mean, all_reduce_sum, keyword
from scaffold.source.edits import Author
from scaffold.source.tree import Source, walk

ID = "SC315"
NAME = "loss-reduction"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Treat every differentiated loss by the kind of its reduction."""
    done: set[cst.CSTNode] = set()
    for event in plan.facts.backwards:
        if event.node not in done:
            done.add(event.node)
            yield from _backward(plan, author, event)
    for event in plan.facts.trace.of_kind("weighted"):
        if event.node not in done and isinstance(event.node, cst.BinaryOperation) and _local(event.value, plan.sharded):
            done.add(event.node)
            author.wrap(event.source, event.node.right, f"{all_reduce_mean(plan, author, event.source)}(", ")")
    for event, weight in _weighted_losses(plan.facts, plan.sharded):
        if event.node not in done and isinstance(event.node, cst.Call):
            done.add(event.node)
            share = _share(plan, author, event.source)
            author.wrap(event.source, event.node, "", f" * {share}({weight})")


def _local(value: Val, data: set[object]) -> bool:
    return any(t.of in data for t in value.locals())


def _backward(plan: Plan, author: Author, event: Event) -> Iterable[Diagnostic]:
    node, source = event.node, event.source
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return
    loss = node.args[0].value if event.name == "torch.autograd.backward" and node.args else node.func.value
    if plan.facts.loss_of(event).tagged("pairs") and any(x.reason for x in plan.in_batch):
        return  # SC316 says why
    kinds = {t.kind for e in plan.facts.backwards if e.node is node for t in plan.facts.loss_of(e).locals() if t.of in plan.sharded}
    if kinds <= {"mean", "count", "rows"}:
        return
    if kinds == {"sum"}:
        author.wrap(source, loss, "(", f" * {plan.world_size(author, source, node)})")
        return
    terms = _terms(plan, source, loss, node)
    if terms is not None:
        for place, term in terms:
            tight = isinstance(term, (cst.Name, cst.Attribute, cst.Call))
            author.wrap(place, term, "" if tight else "(", f"{'' if tight else ')'} * {plan.world_size(author, place, term)}")
        return
    yield Diagnostic.at(
        ID, "error", source, node, f"this loss is neither a mean nor a sum over the batch ({', '.join(sorted(kinds))}), so averaging its gradients over ranks changes it",
        "write it as a sum of terms that are each a mean or a sum over samples",
    )  # fmt: skip


def _terms(plan: Plan, source: Source, loss: cst.BaseExpression, backward: cst.CSTNode) -> list[tuple[Source, cst.BaseExpression]] | None:
    """The summed terms of a loss that adds means and sums; None if a term is neither."""
    expression = _definition(source, loss, backward)
    if expression is None:
        return None
    sums: list[tuple[Source, cst.BaseExpression]] = []
    stack = [expression]
    while stack:
        term = stack.pop()
        kinds = local_kinds(plan.facts, term, plan.sharded)
        if kinds == {"sum"}:
            sums.append((source, term))
        elif kinds <= {"mean"}:
            continue
        elif isinstance(term, cst.BinaryOperation) and isinstance(term.operator, (cst.Add, cst.Subtract)):
            stack += [term.left, term.right]
        elif isinstance(term, cst.BinaryOperation) and isinstance(term.operator, (cst.Multiply, cst.Divide)):
            sides = [s for s in (term.left, term.right) if local_kinds(plan.facts, s, plan.sharded)]
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


def _weighted_losses(facts: Facts, data: set[object]) -> Iterable[tuple[Event, str]]:
    """Cross-entropy calls whose mean is taken over unequal weight, with the text of this rank's weight."""
    for event in facts.trace.of_kind("forward", "call"):
        if not event.grad or not isinstance(event.node, cst.Call) or not _local(event.result, data) or not event.result.tagged("grad"):
            continue
        source, node = event.source, event.node
        if event.kind == "forward":
            inst = next((i for i in event.value.insts() if _loss_name(i)), None)
            if inst is None or calls.loss_settings(_loss_name(inst), inst.args, inst.kwargs) != ("mean", True):
                continue
            name = source.code(node.func)
            ignore = f"{name}.ignore_index" if "ignore_index" in inst.kwargs else None
            weight = f"{name}.weight" if "weight" in inst.kwargs or inst.args else None
        else:
            short = event.name.rpartition(".")[2]
            if short not in api.LOSSES_WEIGHTED or calls.loss_settings(short, event.args, event.kwargs) != ("mean", True):
                continue
            texts = {k: source.code(a.value) for k in ("weight", "ignore_index") if (a := keyword(node, k)) is not None}
            ignore, weight = texts.get("ignore_index"), texts.get("weight")
        positional = [a for a in node.args if a.keyword is None]
        target = keyword(node, "target") or (positional[1] if len(positional) > 1 else None)
        if target is not None and (ignore or weight):
            yield event, _weight_text(source.code(target.value), ignore, weight)


def _weight_text(target: str, ignore: str | None, weight: str | None) -> str:
    if weight and ignore:
        return f"{weight}[({target})[({target}) != {ignore}]].sum()"
    if weight:
        return f"{weight}[{target}].sum()"
    tight = not isinstance(cst.parse_expression(target), (cst.BinaryOperation, cst.Comparison, cst.IfExp, cst.BooleanOperation))
    return f"({target} != {ignore}).sum()" if tight else f"(({target}) != {ignore}).sum()"


def _loss_name(inst: Inst) -> str:
    return next((api.LOSS_CLASSES.get(b.rpartition(".")[2], "") for b in inst.bases() if b.startswith("torch.nn.")), "")


def _share(plan: Plan, author: Author, source: Source) -> str:
    name = plan.free(source, "share_of")
    total = all_reduce_sum(plan, author, source)
    dist = plan.dist(author, source)
    author.helper(
        source,
        name,
        f'''def {name}(weight):
    """This rank's weight relative to the mean over ranks: turns the ranks' weighted means into the whole batch's."""
    return weight * {dist}.get_world_size() / {total}(weight)
''',
    )
    return name
