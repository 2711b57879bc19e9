"""Give each rank its own noise: offset the seed by the rank once the model is built and the data is split.

One seed for all ranks makes dropout masks, augmentation and noise identical on every rank, so a global batch holds N copies of the same
noise. Different seeds from the start would split the data differently on each rank. So: the common seed up to the training loop, the
rank's own from there. Batch indices that the script draws itself must stay common (SC207): then only the GPU's generator is offset.

Before::

    torch.manual_seed(args.seed)
    ...
    for epoch in range(args.epochs):

After::

    torch.manual_seed(args.seed)
    ...
    torch.manual_seed(torch.initial_seed() + rank)  # own dropout and augmentation on each rank
    for epoch in range(args.epochs):

Reference: https://docs.pytorch.org/docs/stable/notes/randomness.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.own_batching import data_draws, deciding_draws
from scaffold.roles.facts import Facts
from scaffold.roles.trace import Loop
from scaffold.rules import Diagnostic
from scaffold.source.edits import BEFORE, Author

ID = "SC209"
NAME = "rank-seed"
SEVERITY = "W"

_NOISE = ("torch.rand", "torch.normal", "torch.bernoulli", "torch.nn.functional.dropout", "torchvision.transforms.Random", "torchvision.transforms.v2.Random")


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Insert the offset before the outermost training loop of a script that seeds torch and draws noise while training."""
    facts = plan.facts
    seeded = facts.trace.named("torch.manual_seed", "transformers.set_seed", "lightning.seed_everything")
    loop = _outermost(facts)
    if not seeded or loop is None or not _noisy(facts):
        return
    source = loop.source
    torch = plan.torch(author, source)
    rank = plan.rank(author, source, loop.node)
    if _decides(facts):
        return
    if data_draws(facts):
        if plan.device != "cpu":
            author.before(source, loop.node, f"{torch}.cuda.manual_seed({torch}.initial_seed() + {rank})  # own dropout on each rank, common batch indices", BEFORE)
        return
    author.before(source, loop.node, f"{torch}.manual_seed({torch}.initial_seed() + {rank})  # own dropout and augmentation on each rank", BEFORE)
    return
    yield


def _outermost(facts: Facts) -> Loop | None:
    loops = [e.loops[0] for e in facts.backwards if e.loops]
    return next((x for x in loops if isinstance(x.node, (cst.For, cst.While))), None)


def _noisy(facts: Facts) -> bool:
    for event in facts.trace.of_kind("call"):
        if event.name.startswith("torch.nn.") and "ropout" in event.name:
            rate = event.argument(0, "p")
            if rate is None or rate.consts() not in ([0], [0.0]):
                return True
        if event.name.startswith(_NOISE) and (event.loops or event.name.startswith("torchvision")) and event.name != "torch.randperm":
            return True
    return False


def _decides(facts: Facts) -> bool:
    """Whether a draw from torch's generator decides a branch: one made for it while training, or one that an evaluation depends on."""
    return any(n.startswith("torch.") for n in deciding_draws(facts))
