"""Divide hand-made batches: every rank draws the same global batch and takes its share of it.

A script without a DataLoader draws indices (``torch.randint``), or slices a permutation. Under one seed all ranks draw the same batch and N
GPUs do the work of one; under different seeds an epoch's slices no longer cover the data. Drawing N·B and keeping every N-th index gives
exactly the batches of one process with batch size N·B.

Before::

    ix = torch.randint(len(data) - block, (batch_size,))

    for i in range(0, n, batch_size):
        x = data[i:i + batch_size]

After::

    ix = torch.randint(len(data) - block, (batch_size * world_size,))[rank::world_size]

    for i in range(0, n // world_size, batch_size):
        x = data[i * world_size + rank:(i + batch_size) * world_size:world_size]

Reference: https://docs.pytorch.org/docs/stable/notes/randomness.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.cursors import cuttings
from scaffold.plan.own_batching import Slicing, batch_dimension, data_draws, range_slices, splits
from scaffold.roles.trace import Event
from scaffold.rules import Diagnostic
from scaffold.source.edits import Author
from scaffold.source.tree import Source

ID = "SC207"
NAME = "own-batching"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Multiply what is drawn by the world size, and take this rank's share of it."""
    for event in data_draws(plan.facts):
        yield from _draw(plan, author, event)
    for slicing in range_slices(plan.facts):
        yield from _slices(plan, author, slicing)
    yield from _cursors(plan, author)
    for cut in splits(plan.facts):
        assert cut.call is not None and cut.source is not None and isinstance(cut.call, cst.Call)
        method = isinstance(cut.call.func, cst.Attribute) and len(cut.call.args) == 1
        whole = cut.call.func.value if method and isinstance(cut.call.func, cst.Attribute) else cut.call.args[0].value
        if plan.options.batch == "per-gpu":
            author.call(cut.source, whole, _share(plan, author, cut.source))
        else:
            yield Diagnostic.at(ID, "error", cut.source, cut.call, "--batch global cannot divide batches made by split()", "divide the size given to split yourself, or leave --batch per-gpu")


def _draw(plan: Plan, author: Author, event: Event) -> Iterable[Diagnostic]:
    source, call = event.source, event.node
    assert isinstance(call, (cst.Call, cst.ListComp))
    size = batch_dimension(plan.facts, call, event.name)
    if size is None:
        yield Diagnostic.at(
            ID, "error", source, call, "this draw makes the training batch, but its batch dimension was not found, so all ranks would draw alike",
            "draw the whole batch in one call with the batch size as its first dimension",
        )  # fmt: skip
        return
    rank, world = plan.rank(author, source, call), plan.world_size(author, source, call)
    if plan.options.batch == "per-gpu":
        tight = isinstance(size, (cst.Name, cst.Attribute, cst.Integer, cst.Call, cst.Subscript))
        author.wrap(source, size, "" if tight else "(", f"{'' if tight else ')'} * {world}")
    author.wrap(source, call, "", f"[{rank}::{world}]")


def _cursors(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    cut = cuttings(plan.facts)
    sizes = {node: source for c in cut for source, node in c.sizes}
    for cutting in cut:
        if cutting.problem:
            yield Diagnostic.at(
                ID, "error", cutting.source, cutting.node, f"batches are cut at a position that moves on here, and {cutting.problem}", "slice the data as data[i:i + batch_size]"
            )
            return
    if plan.options.batch == "per-gpu":
        for node, source in sizes.items():
            _scaled(author, source, node, f" * {plan.world_size(author, source, node)}", always=False)
    for source, node in {n: (s, n) for c in cut for s, n in c.slices}.values():
        author.call(source, node, _row_share(plan, author, source))


def _row_share(plan: Plan, author: Author, source: Source) -> str:
    name = plan.free(source, "my_rows")
    dist = plan.dist(author, source)
    author.helper(
        source,
        name,
        f'''def {name}(batch):
    """This rank's rows of a batch that all ranks cut alike; all of them where there are fewer rows than ranks."""
    world_size = {dist}.get_world_size()
    return batch[{dist}.get_rank() :: world_size] if len(batch) >= world_size else batch
''',
    )
    return name


def _slices(plan: Plan, author: Author, slicing: Slicing) -> Iterable[Diagnostic]:
    source = slicing.source
    if slicing.problem is not None:
        yield Diagnostic.at(ID, "error", *slicing.problem, "this use of the batch's position could not be divided among the ranks", "slice the data as data[i:i + batch_size]")
        return
    rank, world = plan.rank(author, source, slicing.stop), plan.world_size(author, source, slicing.stop)
    if plan.options.batch == "global":
        for element in slicing.slices:
            author.wrap(element[0], element[1], "", f"[{plan.rank(author, *element)}::{plan.world_size(author, *element)}]")
        return
    if not slicing.counted:
        _scaled(author, source, slicing.stop, f" // {world}", always=False)
    for place, node in slicing.slices:
        _slice(plan, author, place, node)
    for place, index in slicing.indices:
        rank, world = plan.rank(author, place, index), plan.world_size(author, place, index)
        _scaled(author, place, index, f" * {world} + {rank}", always=False)


def _slice(plan: Plan, author: Author, source: Source, node: cst.Subscript) -> None:
    rank, world = plan.rank(author, source, node), plan.world_size(author, source, node)
    part = node.slice[0].slice
    assert isinstance(part, cst.Slice)
    if part.lower is not None:
        _scaled(author, source, part.lower, f" * {world} + {rank}", always=False)
    else:
        author.splice(source, source.span(part)[0], source.span(part)[0], rank)
    if part.upper is None:
        author.splice(source, source.span(part)[1], source.span(part)[1], f":{world}")
    else:
        _scaled(author, source, part.upper, f" * {world}:{world}", always=False)


def _scaled(author: Author, source: Source, node: cst.BaseExpression, suffix: str, always: bool) -> None:
    tight = isinstance(node, (cst.Name, cst.Attribute, cst.Integer, cst.Call, cst.Subscript)) or bool(node.lpar)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Multiply, cst.FloorDivide)) and not suffix.startswith(" //"):
        tight = True
    author.wrap(source, node, "" if tight and not always else "(", suffix if tight and not always else f"){suffix}")


def _share(plan: Plan, author: Author, source: Source) -> str:
    name = plan.free(source, "my_share")
    dist = plan.dist(author, source)
    author.helper(
        source,
        name,
        f'''def {name}(rows):
    """Every world-size-th row, from this rank's number on: as many on each rank."""
    world_size = {dist}.get_world_size()
    return rows[{dist}.get_rank() : len(rows) // world_size * world_size : world_size]
''',
    )
    return name
