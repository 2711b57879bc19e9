"""Divide the training data: a ``DistributedSampler`` for each training ``DataLoader``.

Without it every rank draws from the whole dataset, so N GPUs do the work of one. ``shuffle`` moves to the sampler
(DataLoader refuses both), ``shuffle=False`` stays unshuffled, ``drop_last`` is carried over so that the number of steps stays
that of one process with the global batch.

Before::

    loader = DataLoader(train_set, batch_size=32, shuffle=True)

After::

    loader = DataLoader(train_set, batch_size=32, sampler=DistributedSampler(train_set))

Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.evaluation import dataset_argument, is_iterable_style
from scaffold.roles.calls import role
from scaffold.roles.facts import Facts, Loader
from scaffold.roles.values import Inst, Val
from scaffold.rules import Diagnostic
from scaffold.rules.common import broadcast_object, keyword
from scaffold.rules.data.naming import name_dataset
from scaffold.source.edits import Author

ID = "SC201"
NAME = "distributed-sampler"
SEVERITY = "W"

_DIVIDED_ELSEWHERE = {"range", "torch.split", "super", "cursor"}
_POSITIONS = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory", "drop_last")


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Give each training loader that has no sampler of its own a DistributedSampler."""
    done: set[cst.CSTNode] = set()
    for loader in plan.train_loaders:
        if loader.node in done or not needs_sampler(loader):
            continue
        done.add(loader.node)
        yield from _convert(plan, author, loader)
    for data in plan.facts.train_data:
        if isinstance(data, Inst) and role(data) != "loader" and data.qualified not in _DIVIDED_ELSEWHERE and data.source and data.call:
            yield Diagnostic.at(
                ID, "error", data.source, data.call, f"training reads its batches from {data.qualified}, which is not divided: every rank would train on all of it",
                "give it this rank's share of what it draws from (of its indices, seed nodes or files): items[rank::world_size], cut to the same number on each rank",
            )  # fmt: skip


def needs_sampler(loader: Loader) -> bool:
    """Whether a training loader draws from a map-style dataset without the user's own sampler."""
    given = loader.inst.kwargs
    for name in ("sampler", "batch_sampler"):
        value = given.get(name) or _positional(loader, name)
        if value is not None and value.consts() != [None]:
            return False
    dataset = given.get("dataset", loader.inst.args[0] if loader.inst.args else None)
    return not (dataset is not None and any(is_iterable_style(i) for i in dataset.insts()))


def is_remade(facts: Facts, loader: Loader) -> bool:
    """Whether the loader is made anew each time it is read, so that its sampler cannot count epochs."""
    made = next((e for e in facts.trace.of_kind("call") if e.node is loader.node and loader.inst in e.result.objs), None)
    if made is None or not made.loops:
        return False
    around = {x.node for x in made.loops}
    return all((outer := [x for x in e.loops if x.node is not e.node]) and outer[-1].node in around for e in loader.iterations)


def _positional(loader: Loader, name: str) -> Val | None:
    index = _POSITIONS.index(name)
    return loader.inst.args[index] if index < len(loader.inst.args) else None


def _convert(plan: Plan, author: Author, loader: Loader) -> Iterable[Diagnostic]:
    source, call = loader.source, loader.node
    dataset = dataset_argument(loader)
    if dataset is None:
        yield Diagnostic.at(
            ID, "error", source, call, "the dataset of this training loader could not be found among its arguments, so every rank would train on all of it",
            "pass the dataset as the first argument of DataLoader",
        )  # fmt: skip
        return
    author.need(source, "from torch.utils.data.distributed import DistributedSampler")
    name = name_dataset(plan, author, loader, dataset, "train_set")
    shuffle = _shuffle(loader)
    arguments = [name]
    if shuffle.text is not None:
        arguments.append(f"shuffle={shuffle.text}")
    drop = keyword(call, "drop_last") or argument_at(loader, "drop_last")
    if drop is not None and source.code(drop.value) != "False":
        arguments.append(f"drop_last={source.code(drop.value)}")
    elif drop is None and "drop_last" in loader.inst.kwargs and shuffle.mapping is not None:
        arguments.append(f'drop_last={shuffle.mapping}.get("drop_last", False)')
    elif drop is None and _bound(loader, "drop_last") == [True]:
        arguments.append("drop_last=True")
    if shuffle.text != "False" and is_remade(plan.facts, loader):
        arguments.append(f"seed={broadcast_object(plan, author, source)}(int({plan.torch(author, source)}.randint(2**31, ())))")
    sampler = f"DistributedSampler({', '.join(arguments)})"
    condition = _train_condition(plan, loader)
    if condition == "":
        yield Diagnostic.at(
            ID, "error", source, call, "this one call makes both training and evaluation loaders, and nothing tells them apart here",
            "make the training loader by a call of its own",
        )  # fmt: skip
        return
    if condition and condition == shuffle.text:
        sampler = sampler.replace(f", shuffle={condition}", "")
    if condition:
        sampler = f"{sampler} if {condition} else None"
    _place(author, loader, shuffle, sampler, condition)


class _Shuffle:
    def __init__(self, arg: cst.Arg | None, text: str | None, positional: bool, mapping: str | None) -> None:
        self.arg, self.text, self.positional, self.mapping = arg, text, positional, mapping


def _shuffle(loader: Loader) -> _Shuffle:
    source, call = loader.source, loader.node
    star = next((a for a in call.args if a.star == "**"), None)
    mapping = source.code(star.value) if star is not None else None
    arg = keyword(call, "shuffle") or argument_at(loader, "shuffle")
    if arg is not None:
        text = source.code(arg.value)
        always = loader.inst.kwargs.get("shuffle", _positional(loader, "shuffle"))
        text_or_none = None if text == "True" or always is not None and always.consts() == [True] else text
        return _Shuffle(arg, text_or_none, arg.keyword is None, mapping)
    if mapping is not None and "shuffle" in loader.inst.kwargs:
        return _Shuffle(None, f'{mapping}.get("shuffle", False)', False, mapping)
    if _bound(loader, "shuffle") == [True]:
        return _Shuffle(None, None, False, mapping)
    return _Shuffle(None, "False", False, mapping)


def _bound(loader: Loader, name: str) -> list[object]:
    """What an argument is that was given beforehand (``functools.partial(DataLoader, shuffle=True)``), not in this call."""
    return list(loader.inst.kwargs[name].consts()) if name in loader.inst.kwargs else []


def argument_at(loader: Loader, name: str) -> cst.Arg | None:
    """The argument of a loader's call that stands at the position of ``name``."""
    index = _POSITIONS.index(name)
    args = loader.node.args
    if index < len(args) and all(a.keyword is None and not a.star for a in args[: index + 1]):
        return args[index]
    return None


def _train_condition(plan: Plan, loader: Loader) -> str | None:
    """None if this call only makes training loaders, else a test that holds for those, '' if none is known."""
    twins = [x for x in plan.facts.loaders if x.node is loader.node]
    if all(x.role != "eval" for x in twins):
        return None
    shuffle = keyword(loader.node, "shuffle")
    if shuffle is not None:
        known = {role_: {tuple(x.inst.kwargs["shuffle"].consts()) for x in twins if x.role == role_ and "shuffle" in x.inst.kwargs} for role_ in ("train", "eval")}
        if known == {"train": {(True,)}, "eval": {(False,)}}:
            return loader.source.code(shuffle.value)
    return plan.telling_apart(loader, twins)


def _tight(condition: str) -> str:
    return condition if condition.isidentifier() else f"({condition})"


def _place(author: Author, loader: Loader, shuffle: _Shuffle, sampler: str, condition: str | None) -> None:
    source, call = loader.source, loader.node
    given = keyword(call, "sampler") or argument_at(loader, "sampler")
    if given is not None:
        author.replace(source, given.value, sampler)
        if shuffle.arg is not None and not shuffle.positional:
            author.remove_argument(source, call, shuffle.arg)
        elif shuffle.arg is not None:
            author.replace(source, shuffle.arg.value, "False")
        return
    if shuffle.arg is not None:
        start, end = source.span(shuffle.arg)
        if shuffle.positional and call.args.index(shuffle.arg) + 1 < len(call.args) and call.args[call.args.index(shuffle.arg) + 1].keyword is None:
            author.splice(source, start, end, f"False, {sampler}")
            after = call.args[call.args.index(shuffle.arg) + 1]
            if loader.source.code(after.value) == "None":
                author.remove_argument(source, call, after)
        elif condition and condition != source.code(shuffle.arg.value) and source.code(shuffle.arg.value) != "True":
            author.splice(source, start, end, f"shuffle={source.code(shuffle.arg.value)} and not {_tight(condition)}, sampler={sampler}")
        elif condition:
            author.splice(source, start, end, f"shuffle=False, sampler={sampler}")
        else:
            author.splice(source, start, end, f"sampler={sampler}")
        return
    if shuffle.mapping is not None and "shuffle" in loader.inst.kwargs:
        star = next(a for a in call.args if a.star == "**")
        start, end = source.span(star)
        author.splice(source, start, end, f'sampler={sampler}, **{{**{shuffle.mapping}, "shuffle": False}}')
        return
    if any(a.star == "**" for a in call.args):
        star = next(a for a in call.args if a.star == "**")
        start = source.span(star)[0]
        author.splice(source, start, start, f"sampler={sampler}, ")
        return
    author.add_argument(source, call, f"sampler={sampler}" if shuffle.text == "False" else f"shuffle=False, sampler={sampler}")
