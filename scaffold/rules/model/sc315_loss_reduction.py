"""Scale losses that are sums, and weigh means over unequal counts.

DDP averages gradients over ranks. That equals one process on the whole batch only for a mean over equal shares. A sum-reduced loss comes out
1/N too small; a mean over tokens, masked entries or class weights is a mean of means. A sum is multiplied by the world size; a weighted mean
is multiplied by this rank's share of the weight, so that the average over ranks is the whole batch's mean. Sums and means that enter a
nonlinear computation (a Dice loss, a root, batch statistics) are first added up over ranks, with gradients.

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
from scaffold.rules import Diagnostic
from scaffold.rules.common import all_reduce_mean, all_reduce_sum
from scaffold.source.edits import Author
from scaffold.source.tree import Source

ID = "SC315"
NAME = "loss-reduction"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Treat every differentiated loss by the kind of its reduction."""
    losses = plan.losses
    for node, source in losses.scaled.items():
        author.wrap(source, node, "(", f" * {plan.world_size(author, source, node)})")
    for node, source in losses.terms.items():
        tight = isinstance(node, (cst.Name, cst.Attribute, cst.Call))
        author.wrap(source, node, "" if tight else "(", f"{'' if tight else ')'} * {plan.world_size(author, source, node)}")
    for node, source in losses.divisors.items():
        author.call(source, node, all_reduce_mean(plan, author, source))
    for node, (source, weight) in losses.weighted.items():
        author.wrap(source, node, f"{_weighted_mean(plan, author, source)}(", f", {weight})")
    for node, (source, kind, evaluates) in losses.whole.items():
        author.call(source, node, _over_ranks(plan, author, source, kind, evaluates))
    if any(x.reason for x in losses.in_batch):
        return  # SC316 says why
    for backward, (source, kinds) in losses.unclear.items():
        yield Diagnostic.at(
            ID, "error", source, backward, f"this loss is neither a mean nor a sum over the batch ({', '.join(sorted(kinds))}), so averaging its gradients over ranks changes it",
            "write it as a sum of terms that are each a mean or a sum over samples",
        )  # fmt: skip


def _over_ranks(plan: Plan, author: Author, source: Source, kind: str, evaluates: bool) -> str:
    name = plan.free(source, f"{kind}_over_ranks")
    dist, torch = plan.dist(author, source), plan.torch(author, source)
    author.need(source, "import torch.distributed.nn.functional")
    share = f" / {dist}.get_world_size()" if kind == "mean" else ""
    skip = f"    if not {torch}.is_grad_enabled():\n        return value\n" if evaluates else ""
    author.helper(
        source,
        name,
        f'''def {name}(value):
    """The {kind} of a tensor over all ranks, with gradients{' (evaluation is not divided)' if evaluates else ''}."""
{skip}    return {torch}.distributed.nn.functional.all_reduce(value){share}
''',
    )
    return name


def _weighted_mean(plan: Plan, author: Author, source: Source) -> str:
    name = plan.free(source, "weighted_mean")
    total = all_reduce_sum(plan, author, source)
    dist, torch = plan.dist(author, source), plan.torch(author, source)
    author.helper(
        source,
        name,
        f'''def {name}(mean, weight):
    """A mean over ``weight`` entries on this rank, so scaled that its average over ranks is the mean over all of them."""
    weight = {torch}.as_tensor(weight, device=mean.device)
    return {torch}.where(weight > 0, mean, 0.0) * weight * {dist}.get_world_size() / {total}(weight)
''',
    )
    return name
