"""Which evaluation loaders can be divided among the ranks with an exact result."""

from __future__ import annotations

import libcst as cst

from scaffold.plan.carried import carried, local_kinds
from scaffold.roles.facts import Facts, Loader
from scaffold.roles.trace import Event
from scaffold.roles.values import LOCAL, Inst, Map
from scaffold.source.tree import walk

_EXACT = {"sum", "count"}


def shardable(facts: Facts, loaders: list[Loader], collective: set[cst.CSTNode]) -> list[Loader]:
    """Evaluation loaders whose loops leave nothing behind but sums and counts over samples, and call no ``collective`` function."""
    trained = {x.node for x in facts.loaders if x.role == "train"}
    good: list[Loader] = []
    for loader in loaders:
        if any(_calls(facts, e, collective) for e in loader.iterations):
            continue
        if loader.node not in trained and _plain(loader) and _lengths_unused(facts, loader) and all(_clean(facts, e, loader) for e in loader.iterations):
            good.append(loader)
    nodes = {x.node for x in loaders if x not in good}
    return [x for x in good if x.node not in nodes]


def _calls(facts: Facts, event: Event, functions: set[cst.CSTNode]) -> bool:
    """Whether the loop at an event enters one of some functions."""
    frames = [f for n in functions for f in facts.called_from(n)]
    inside = set(walk(event.node))
    return any(g.call in inside for f in frames for g in f.stack() if g.call is not None)


def dataset_argument(loader: Loader) -> cst.Arg | None:
    """The argument that gives a loader its dataset."""
    for index, arg in enumerate(loader.node.args):
        if (index == 0 and arg.keyword is None and not arg.star) or (arg.keyword is not None and arg.keyword.value == "dataset"):
            return arg
    return None


def _plain(loader: Loader) -> bool:
    arg = dataset_argument(loader)
    if arg is None or not isinstance(arg.value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or not isinstance(loader.inst.cls, str):
        return False
    if loader.inst.cls != "torch.utils.data.DataLoader" or len([a for a in loader.node.args if a.keyword is None and not a.star]) > 2:
        return False
    keywords = {a.keyword.value: a for a in loader.node.args if a.keyword is not None}
    if {"sampler", "batch_sampler"} & keywords.keys() or {"sampler", "batch_sampler", "shuffle"} & (loader.inst.kwargs.keys() - keywords.keys()):
        return False
    shuffle = loader.inst.kwargs.get("shuffle")
    if shuffle is not None and shuffle.consts() != [False]:
        return False
    drop = loader.inst.kwargs.get("drop_last")
    if drop is not None and drop.consts() != [False]:
        return False
    if any(a.star == "*" for a in loader.node.args):
        return False
    dataset = loader.inst.kwargs.get("dataset", loader.inst.args[0] if loader.inst.args else None)
    return dataset is None or not any(is_iterable_style(i) for i in dataset.insts())


def is_iterable_style(dataset: Inst) -> bool:
    """Whether a dataset is an ``IterableDataset``, which takes no sampler."""
    return any(b.rpartition(".")[2] in {"IterableDataset", "IterDataPipe", "ChainDataset"} for b in dataset.bases())


def _lengths_unused(facts: Facts, loader: Loader) -> bool:
    return not any(t.kind == "batches" and t.of is loader.inst for v in facts.trace.values.values() for t in v.tags)


def _clean(facts: Facts, event: Event, loader: Loader) -> bool:
    if event.kind != "iterate" or not isinstance(event.node, cst.For) or event.grad:
        return False
    node, source = event.node, event.source
    data: set[object] = {loader.inst}
    kept = carried(facts, source, node, data)
    if not kept or any(not c.kinds <= _EXACT or len(c.kinds) != 1 or not c.reset for c in kept):
        return False
    for inner in facts.trace.events:
        if not any(x.node is node for x in inner.loops):
            continue
        if inner.kind in {"setattr", "setitem"} and inner.args and _local(inner.args[0].tags, loader.inst):
            return False
        if inner.kind == "call":
            name = inner.name
            if name.startswith("list.") and any(_local(a.tags, loader.inst) for a in inner.args):
                return False
            if name == "print" or name.startswith(("writer.", "file.", "logger.", "tqdm.tqdm.")) or name in {"torch.save", "torchvision.utils.save_image"}:
                return False
        if inner.kind == "branch" and _local(inner.value.tags, loader.inst):
            return False
        if inner.kind == "branch" and any(isinstance(n, (cst.Break, cst.Return)) for n in walk(inner.node)):
            return False
    return not any(isinstance(n, (cst.Return, cst.Yield)) for n in walk(node.body)) and _read_once(facts, event, data)


def _local(tags: frozenset[object], data: object) -> bool:
    return any(getattr(t, "of", None) is data and getattr(t, "kind", "") in LOCAL for t in tags)


def _read_once(facts: Facts, event: Event, data: set[object]) -> bool:
    """No attribute or container outside the function was given a per-batch value."""
    return not any(
        isinstance(n, cst.Attribute) and isinstance(p, cst.AugAssign) and local_kinds(facts, p.value, data)
        for p in walk(event.node)
        if isinstance(p, cst.AugAssign)
        for n in [p.target]
    )


def shared_dictionary(loader: Loader) -> bool:
    """Whether a loader takes settings from a ``**`` dictionary."""
    return any(a.star == "**" for a in loader.node.args) and any(isinstance(o, Map) for a in loader.inst.args for o in a.objs)
