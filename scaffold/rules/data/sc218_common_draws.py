"""Let ranks draw alike what must be alike: batch indices, permutations, and choices that steer training.

Without a seed each process draws its own permutation or its own choice of branch: the ranks' slices overlap, or they run different parts of
the model. Rank 0's seed is given to all, so a run stays random but common.

Before::

    perm = torch.randperm(n)

After::

    torch.manual_seed(from_rank_0(torch.seed()))  # all ranks draw the same batches
    ...
    perm = torch.randperm(n)

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
from scaffold.roles.trace import Event
from scaffold.roles.values import Ext, Inst
from scaffold.rules import Diagnostic
from scaffold.rules.common import broadcast_object
from scaffold.source.edits import SETUP, Author
from scaffold.source.tree import Source

ID = "SC218"
NAME = "common-draws"
SEVERITY = "W"

_SEEDS = {
    "torch": ("torch.manual_seed", "torch.manual_seed({box}(torch.seed()))"),
    "numpy": ("numpy.random.seed", "{np}.random.seed({box}({np}.random.randint(2**31)))"),
    "random": ("random.seed", "random.seed({box}(random.getrandbits(32)))"),
}


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Seed each generator that must be common and that the script leaves unseeded."""
    facts, setup = plan.facts, plan.setup
    if setup is None:
        return
    source = setup.source
    for family in sorted(common_families(facts)):
        seeder, template = _SEEDS[family]
        if facts.trace.named(seeder):
            continue
        box = broadcast_object(plan, author, source)
        torch = plan.torch(author, source)
        alias = alias_of(facts, source, family)
        if family == "numpy" and alias is None:
            author.need(source, "import numpy as np")
        if family == "random":
            author.need(source, "import random")
        line = template.format(box=box, np=alias or "np")
        author.before(source, setup.anchor, line.replace("torch.", f"{torch}.") + "  # all ranks draw alike", SETUP, above_comments=True)
    return
    yield


def alias_of(facts: Facts, source: Source, family: str) -> str | None:
    """The name under which a file knows a module."""
    scope = facts.trace.module_scopes.get(source)
    for name, value in scope.vars.items() if scope else ():
        if any(isinstance(o, Ext) and o.name == family for o in value.objs):
            return name
    return None


def _data_made(facts: Facts) -> set[str]:
    """Draws that make or pick data before training: every rank must hold the same data."""
    found: set[str] = set()
    for event in facts.trace.of_kind("call"):
        if event.name == "torch.utils.data.random_split" and event.loops and "generator" not in event.kwargs:
            found.add("torch.randperm")
        if event.name == "dataset.shuffle" and not event.args and not event.kwargs and not in_training(facts, event):
            found.add("torch.randperm")
        drawn = not event.value.insts() and (event.name in api.DRAWS_TORCH or event.name.startswith(("numpy.random.", "random.")))
        if not drawn or not event.result.tagged("draw") or in_training(facts, event) or event.frame.cls is not None and is_module_class(event):
            continue
        if not any(isinstance(f.node, cst.FunctionDef) and f.node.name.value in {"__getitem__", "__iter__"} for f in event.frame.stack()):
            found.add(event.name)
    return found


def is_module_class(event: Event) -> bool:
    """Whether a draw happens inside a module (initialisation, which the wrapper broadcasts)."""
    owner = event.frame.owner
    return owner is not None and calls.role(owner) == "module"


def common_families(facts: Facts) -> set[str]:
    """The modules (torch, numpy, random) whose draws must be the same on all ranks."""
    names = {e.name for e in data_draws(facts)}
    slices = any(isinstance(d, Inst) and d.qualified == "range" for d in facts.train_data)
    for event in facts.trace.of_kind("call"):
        if slices and event.name in {"torch.randperm", "numpy.random.permutation", "numpy.random.shuffle", "random.shuffle"}:
            names.add(event.name)
    names |= deciding_draws(facts) | _data_made(facts)
    for event in facts.trace.of_kind("call"):
        one = not event.value.insts() and event.result.tagged("draw") and not event.result.locals()
        if one and in_training(facts, event) and event.name.startswith(("numpy.random.", "random.")) and not is_module_class(event):
            names.add(event.name)
    return {n.split(".")[0] for n in names} & _SEEDS.keys()
