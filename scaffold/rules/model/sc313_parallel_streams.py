"""Divide the streams, not the time: carried hidden state stays with its rank.

A recurrent language model reads a text as B parallel columns and carries the hidden state from one slice of time to the next. Slicing
time among ranks would break that chain. Each rank lays out N·B columns as one process with that batch size would, and keeps B of them for the
whole epoch; the hidden state then has the rank's own B rows.

Before::

    train_data = batchify(corpus.train, args.batch_size)

After::

    train_data = batchify(corpus.train, args.batch_size * world_size)[:, rank * args.batch_size:(rank + 1) * args.batch_size].contiguous()

Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.places import argument_for
from scaffold.roles.facts import columns_of
from scaffold.roles.values import Inst, Tag
from scaffold.rules import Diagnostic
from scaffold.source.edits import Author
from scaffold.source.tree import Source

ID = "SC313"
NAME = "parallel-streams"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Give each rank its columns of the training text."""
    done: set[cst.CSTNode] = set()
    for data in plan.facts.train_data:
        if not isinstance(data, Inst) or data.qualified != "range":
            continue
        for tag in columns_of(data):
            place = _place(plan, tag)
            if place is None:
                assert data.source is not None and data.call is not None
                yield Diagnostic.at(
                    ID, "error", data.source, data.call, "the text that is read here in slices of time could not be divided into columns for each rank",
                    "lay it out by a function call whose argument is the batch size",
                )  # fmt: skip
                continue
            source, whole, size = place
            if plan.options.batch == "global":
                yield Diagnostic.at(
                    ID, "error", source, whole, "--batch global cannot divide parallel streams of text: hidden state is sized by the batch size in other places too",
                    "leave --batch per-gpu and give the script 1/N of its batch size",
                )  # fmt: skip
                continue
            if whole not in done:
                done.add(whole)
                _divide(plan, author, source, whole, size, _batch_axis(plan, data))


def _place(plan: Plan, tag: Tag) -> tuple[Source, cst.BaseExpression, cst.BaseExpression] | None:
    """The expression that lays the text out, and the batch size in it."""
    view = tag.at
    source = next((s for s in plan.facts.project.sources if view in s.parents), None)
    if source is None or not isinstance(view, cst.Call):
        return None
    size = view.args[0].value
    function = source.function(view)
    if not isinstance(function, cst.FunctionDef):
        statement = source.statement(view)
        if isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Assign):
            return source, statement.body[0].value, size
        return None
    caller = next((s for s in plan.facts.project.sources if tag.of in s.parents), None)
    if caller is None or not isinstance(tag.of, cst.Call) or not isinstance(size, cst.Name):
        return None
    arg = argument_for(tag.of, function, size.value)
    return None if arg is None else (caller, tag.of, arg.value)


def _batch_axis(plan: Plan, data: Inst) -> int:
    """1 where time is the first axis of the layout, 0 where it is the second."""
    for node, value in plan.facts.trace.values.items():
        if isinstance(node, cst.Subscript) and any(t.kind == "rows" and t.of is data for t in value.tags):
            for position, element in enumerate(node.slice):
                if isinstance(element.slice, cst.Slice) and element.slice.upper is not None and position:
                    return 0
    return 1


def _divide(plan: Plan, author: Author, source: Source, whole: cst.BaseExpression, size: cst.BaseExpression, axis: int) -> None:
    rank, world = plan.rank(author, source, whole), plan.world_size(author, source, whole)
    text = source.code(size)
    tight = isinstance(size, (cst.Name, cst.Attribute, cst.Integer, cst.Subscript, cst.Call))
    per_rank = text if tight else f"({text})"
    author.wrap(source, size, "" if tight else "(", f"{'' if tight else ')'} * {world}")
    columns = f"{rank} * {per_rank}:({rank} + 1) * {per_rank}"
    author.wrap(source, whole, "", f"[{':, ' if axis else ''}{columns}].contiguous()")
