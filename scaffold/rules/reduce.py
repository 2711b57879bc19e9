"""Writing the reductions: at loop ends, and before a statement that shows or decides on a number."""

from __future__ import annotations

import re

import libcst as cst

from scaffold.errors import Refused
from scaffold.plan import Plan
from scaffold.plan.locals import Part
from scaffold.rules.common import reducer
from scaffold.source.edits import AFTER, HOIST, Author
from scaffold.source.tree import Source, walk


def at_loop_end(plan: Plan, author: Author, source: Source, loop: cst.CSTNode, name: str, kind: str) -> None:
    """Make a variable global right behind the loop that accumulated it."""
    line = f"{name} = {reducer(plan, author, source, kind)}({name})"
    test = plan.partly_divided.get(loop)
    if test and kind != "mean":
        author.need(source, "from torch.utils.data.distributed import DistributedSampler")
        line = f"if {test}:  # else every rank has read all of it\n    {line}"
    author.after(source, loop, line, AFTER)


def in_place(plan: Plan, author: Author, source: Source, part: Part) -> None:
    """Make an expression global where it stands; never one that is still differentiated: the reduction would cut it off."""
    if plan.facts.trace.value(part.node).tagged("grad") and not any(isinstance(a, cst.Call) and a in plan.shown for a in source.ancestors(part.node)):
        return
    if part.kind == "count":
        _times_world_size(plan, author, source, part.node)
        return
    author.wrap(source, part.node, f"{reducer(plan, author, source, part.kind)}(", ")")


def before_statement(plan: Plan, author: Author, source: Source, statement: cst.CSTNode, part: Part) -> None:
    """Make an expression global in a line before its statement, so that no rank guard holds the collective."""
    if part.kind == "count":
        _times_world_size(plan, author, source, part.node)
        return
    if variable := _bound_by_comprehension(source, statement, part.node):
        raise Refused(
            f"{source.name}:{source.line(part.node)}: {source.code(part.node)!r} is one rank's share, and a line before this one cannot reduce it: "
            f"{variable} is a variable of the comprehension; collect the values in a list by a loop or a comprehension before this line, and show that"
        )
    text = source.code(part.node)
    name = plan.local_name(source, part.node, f"{'mean' if part.kind == 'mean' else 'total'}_{_word(part.node)}")
    one_line = " ".join(text.split()) if "\n" in text else text
    author.before(source, source.small(statement, part.node), f"{name} = {reducer(plan, author, source, part.kind)}({one_line})", HOIST)
    author.replace(source, part.node, name)


def _bound_by_comprehension(source: Source, statement: cst.CSTNode, node: cst.CSTNode) -> str | None:
    """A name in ``node`` that only exists in a comprehension around it."""
    names = {n.value for n in walk(node) if isinstance(n, cst.Name)}
    for outer in source.ancestors(node):
        if outer is statement:
            break
        if isinstance(outer, (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)):
            level: cst.CompFor | None = outer.for_in
            while level is not None:
                bound = {n.value for n in walk(level.target) if isinstance(n, cst.Name)}
                if names & bound:
                    return min(names & bound)
                level = level.inner_for_in
    return None


def _times_world_size(plan: Plan, author: Author, source: Source, node: cst.BaseExpression) -> None:
    tight = isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or (
        isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Multiply, cst.Divide))
    )
    opening, closing = ("", "") if tight else ("(", ")")
    author.wrap(source, node, opening, f"{closing} * {plan.world_size(author, source, node)}")


def _word(node: cst.CSTNode) -> str:
    """A word for the expression: the attribute it reads, else the first name in it that is not a module or a wrapper."""
    inner: cst.CSTNode = node
    while isinstance(inner, cst.Call) and isinstance(inner.func, cst.Attribute) and not inner.args:
        inner = inner.func.value
    if isinstance(inner, cst.Attribute):
        return inner.attr.value.lower().strip("_") or "value"
    names = [n.value for n in walk(node) if isinstance(n, cst.Name)]
    keys = [str(n.evaluated_value) for n in walk(node) if isinstance(n, cst.SimpleString)]
    names = [n for n in names if n not in {"self", "np", "numpy", "torch", "float", "int", "item", "round", "sum", "len", "mean", "th", "math"}]
    word = re.sub(r"^(mean|total)_", "", names[0].lower().strip("_")) if names else "value"
    key = keys[0] if len(keys) == 1 and keys[0].isidentifier() else ""
    return f"{word}_{key}" if key and word else word or "value"
