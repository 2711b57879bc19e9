"""Reshuffle every epoch: ``set_epoch`` on the sampler before the data is read again.

A ``DistributedSampler`` shuffles with a seed of its own plus the epoch number; without ``set_epoch`` every epoch has the
same order.

Before::

    for epoch in range(epochs):
        for batch in loader: ...

After::

    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)  # a new order each epoch
        for batch in loader: ...

Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.roles.facts import Loader
from scaffold.roles.trace import Event, Loop
from scaffold.roles.values import Inst, Seq
from scaffold.rules import Diagnostic
from scaffold.rules.common import name_in
from scaffold.rules.data.sc201_distributed_sampler import is_remade, needs_sampler
from scaffold.source.edits import HOIST, Author
from scaffold.source.tree import walk

ID = "SC203"
NAME = "set-epoch"
SEVERITY = "W"

_COMMENT = "  # a new order each epoch"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Insert ``set_epoch`` in the loop that repeats the reading of each sharded training loader."""
    done: set[tuple[cst.CSTNode, str]] = set()
    placed: set[tuple[cst.CSTNode, Inst]] = set()
    for loader in plan.train_loaders:
        if not needs_sampler(loader) or _never_shuffles(loader) or is_remade(plan.facts, loader):
            continue
        for event in loader.iterations:
            if not _trains(plan, event):
                continue
            if (event.node, loader.inst) in placed or event.kind == "call" and event.name == "next":
                continue
            placed.add((event.node, loader.inst))
            if _restarted(loader):
                yield from _before(plan, author, loader, event, done)
            else:
                yield from _place(plan, author, loader, event, done)


def _restarted(loader: Loader) -> bool:
    """Whether an exhausted iterator is made again in the middle of training: the sampler's own count goes on then."""
    return len({e.node for e in loader.iterations if e.kind == "call" and e.name == "iter"}) > 1


def _trains(plan: Plan, event: Event) -> bool:
    """Whether reading the loader here feeds training (an evaluation over training data needs no new order)."""
    if event.kind == "call":
        return bool(event.loops) or bool(plan.facts.backwards)
    if isinstance(event.node, cst.For) and isinstance(event.source.function(event.node), cst.FunctionDef) and any(isinstance(n, cst.Yield) for n in walk(event.node.body)):
        return True
    return any(x.node is event.node for e in plan.facts.backwards for x in e.loops)


def _never_shuffles(loader: Loader) -> bool:
    shuffle = loader.inst.kwargs.get("shuffle") or (loader.inst.args[2] if len(loader.inst.args) > 2 else None)
    return shuffle is None or shuffle.consts() == [False]


def _place(plan: Plan, author: Author, loader: Loader, event: Event, done: set[tuple[cst.CSTNode, str]]) -> Iterable[Diagnostic]:
    loops = [x for x in event.loops if x.node is not event.node and not _over_names(x)]
    epoch_loop = loops[-1] if loops else None
    if epoch_loop is not None and not any(x is event.node for x in walk(epoch_loop.node)):
        outer = _in_epoch_loop(loader.inst, epoch_loop)
        if outer is not None:
            if (epoch_loop.node, outer[0]) not in done:
                done.add((epoch_loop.node, outer[0]))
                _insert_in_loop(author, epoch_loop, *outer)
            return
    elif epoch_loop is not None:
        outer = _in_epoch_loop(loader.inst, epoch_loop)
        if outer is not None:
            if (epoch_loop.node, outer[0]) not in done:
                done.add((epoch_loop.node, outer[0]))
                _insert_in_loop(author, epoch_loop, *outer)
            return
    if epoch_loop is None and event.kind != "call":
        return
    yield from _before(plan, author, loader, event, done)


def _before(plan: Plan, author: Author, loader: Loader, event: Event, done: set[tuple[cst.CSTNode, str]]) -> Iterable[Diagnostic]:
    name = _expression(plan, event, loader.inst)
    if name is None:
        yield Diagnostic.at(
            ID, "error", event.source, event.node, "the loader that is read here has no name at this place, so the sampler cannot be told the epoch",
            "keep the loader in a variable",
        )  # fmt: skip
        return
    if (event.node, name) in done:
        return
    done.add((event.node, name))
    statement = event.source.statement(event.node)
    line = f"{name}.sampler.set_epoch({name}.sampler.epoch + 1){_COMMENT}"
    others = [i for f in plan.facts.called_from(event.frame.node) if name in f.scope.vars for i in f.scope.vars[name].insts()]
    if any(i not in {x.inst for x in plan.train_loaders} for i in others):
        line = f'if hasattr({name}.sampler, "set_epoch"):\n    {line}'
    author.before(event.source, statement, line, HOIST)


def _over_names(loop: Loop) -> bool:
    """``for phase in ["train", "val"]``: a loop over parts of an epoch."""
    items = [i for o in loop.value.objs if isinstance(o, Seq) for i in o.items]
    return bool(items) and all(isinstance(c, str) for i in items for c in i.consts() or [None])


def _in_epoch_loop(loader: Inst, loop: Loop) -> tuple[str, str] | None:
    """How the epoch loop names the loader, and its epoch variable."""
    if not isinstance(loop.node, cst.For) or not isinstance(loop.node.body, cst.IndentedBlock):
        return None
    name = name_in(loop.frame, loader)
    if name is None:
        return None
    target: cst.CSTNode = loop.node.target
    ranged = [i for i in loop.value.insts() if i.qualified in {"range", "enumerate", "tqdm.trange", "tqdm.tqdm"}]
    if isinstance(target, cst.Tuple) and any(i.qualified == "enumerate" for i in ranged):
        target = target.elements[0].value
    if not isinstance(target, cst.Name) or not ranged:
        return None
    if target.value == "_":
        if any(isinstance(n, cst.Name) and n.value in {"_", "epoch"} for n in walk(loop.node.body)):
            return None
        return name, "_"
    return name, target.value


def _insert_in_loop(author: Author, loop: Loop, name: str, epoch: str) -> None:
    node = loop.node
    assert isinstance(node, cst.For) and isinstance(node.body, cst.IndentedBlock)
    if epoch == "_":
        target = node.target.elements[0].value if isinstance(node.target, cst.Tuple) else node.target
        author.replace(loop.source, target, "epoch")
        epoch = "epoch"
    author.at_start(loop.source, node.body, f"{name}.sampler.set_epoch({epoch}){_COMMENT}")


def _expression(plan: Plan, event: Event, loader: Inst) -> str | None:
    found = name_in(event.frame, loader)
    if found is not None:
        return found
    node = event.node
    if isinstance(node, cst.Yield) and isinstance(node.value, cst.From):
        node = node.value.item
    iterated: cst.CSTNode | None = node.iter if isinstance(node, (cst.For, cst.CompFor)) else node.args[0].value if isinstance(node, cst.Call) and node.args else None
    for inner in walk(iterated) if iterated is not None else ():
        if isinstance(inner, (cst.Name, cst.Attribute)) and loader in plan.facts.trace.value(inner).objs:
            return event.source.code(inner)
    return None
