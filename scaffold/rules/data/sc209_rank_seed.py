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
from scaffold.plan.timing import in_training
from scaffold.roles import api, calls
from scaffold.roles.facts import Facts
from scaffold.roles.trace import Event, Loop
from scaffold.roles.values import NOTHING, Class, Inst
from scaffold.rules import Diagnostic
from scaffold.rules.data.sc218_common_draws import alias_of, common_families
from scaffold.source.edits import BEFORE, Author

ID = "SC209"
NAME = "rank-seed"
SEVERITY = "W"

_SEEDERS = {
    "torch": ("torch.manual_seed", "transformers.set_seed", "lightning.seed_everything"),
    "numpy": ("numpy.random.seed", "transformers.set_seed", "lightning.seed_everything"),
    "random": ("random.seed", "transformers.set_seed", "lightning.seed_everything"),
}
_OFFSETS = {
    "torch": "{torch}.manual_seed({torch}.initial_seed() + {rank})",
    "numpy": "{numpy}.random.seed({numpy}.random.randint(2**31) + {rank})",
    "random": "random.seed(random.getrandbits(32) + {rank})",
}
_NOISE = ("torch.rand", "torch.normal", "torch.bernoulli", "torch.nn.functional.dropout", "torchvision.transforms.Random", "torchvision.transforms.v2.Random")


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Insert the offsets before the outermost training loop, for each generator that is seeded and makes noise while training."""
    facts = plan.facts
    loop = _outermost(facts)
    if loop is None:
        return
    source = loop.source
    rank = plan.rank(author, source, loop.node)
    common = _common(facts)
    noisy = _noisy(facts)
    for family in sorted(noisy, reverse=True):
        if not facts.trace.named(*_SEEDERS[family]) and family not in common_families(facts):
            continue
        names = {"rank": rank, "torch": plan.torch(author, source) if family == "torch" else "", "numpy": alias_of(facts, source, "numpy") or "np"}
        if family not in common:
            if family == "numpy" and alias_of(facts, source, "numpy") is None:
                author.need(source, "import numpy as np")
            elif family == "random":
                author.need(source, "import random")
            author.before(source, loop.node, f"{_OFFSETS[family].format(**names)}  # own {noisy[family]} on each rank", BEFORE)
        elif family == "torch" and plan.device != "cpu" and not any(n.startswith("torch.") for n in deciding_draws(facts)):
            line = f"{names['torch']}.cuda.manual_seed({names['torch']}.initial_seed() + {rank})  # own dropout on each rank, common batch indices"
            author.before(source, loop.node, line, BEFORE)
    return
    yield


def _outermost(facts: Facts) -> Loop | None:
    loops = [e.loops[0] for e in facts.backwards if e.loops]
    return next((x for x in loops if isinstance(x.node, (cst.For, cst.While))), None)


def _noisy(facts: Facts) -> dict[str, str]:
    """The generators that draw noise, with what they draw it for."""
    found: dict[str, str] = {}
    data = {e.node for e in data_draws(facts)}
    for event in facts.trace.of_kind("call"):
        if event.node in data:
            continue
        if event.name.startswith("torch.nn.") and "ropout" in event.name:
            rate = event.argument(0, "p")
            if rate is None or rate.consts() not in ([0], [0.0]):
                found["torch"] = "dropout and augmentation"
        elif event.name.startswith(_NOISE) and (event.loops or event.name.startswith("torchvision")) and event.name not in api.PERMUTATIONS:
            found["torch"] = "dropout and augmentation"
        family = event.name.partition(".")[0]
        drawn = any(t.kind == "draw" and t.at is event.node for t in event.result.tags)
        if family not in _SEEDERS or not drawn or event.value.insts() or event.name in api.PERMUTATIONS:
            continue
        if _augments(facts, event):
            found.setdefault(family, "augmentation")
        elif event.result.tagged("rows") and in_training(facts, event):
            found.setdefault(family, "noise")
    return found


def _augments(facts: Facts, event: Event) -> bool:
    """Whether a draw happens where samples are loaded: in code that only a DataLoader calls."""
    collating = {o.node for x in facts.loaders for o in x.inst.kwargs.get("collate_fn", NOTHING).objs if hasattr(o, "node")}
    for frame in event.frame.stack():
        if frame.call is None and isinstance(frame.node, cst.FunctionDef):
            kind = calls.role(Inst(None, frame.cls)) if isinstance(frame.cls, Class) else ""
            return isinstance(frame.cls, Class) and kind not in {"module", "sampler"} and "ampler" not in frame.cls.name or frame.node in collating
    return False


def _common(facts: Facts) -> set[str]:
    """The generators whose draws while training must be the same on all ranks."""
    names = {e.name for e in data_draws(facts)} | deciding_draws(facts)
    slices = any(isinstance(d, Inst) and d.qualified in {"range", "cursor", "torch.split"} for d in facts.train_data)
    for event in facts.trace.of_kind("call"):
        if event.value.insts() or not in_training(facts, event):
            continue
        if event.name in api.PERMUTATIONS and slices:
            names.add(event.name)
        elif event.name.startswith(("numpy.random.", "random.")) and event.result.tagged("draw") and not event.result.locals():
            if not (isinstance(event.frame.owner, Inst) and calls.role(event.frame.owner) == "module"):
                names.add(event.name)
    return {n.partition(".")[0] for n in names}
