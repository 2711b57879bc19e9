"""Leave ``CUDA_VISIBLE_DEVICES`` to the launcher.

``torchrun`` gives process *i* the GPU with index *i*. A script that hides all GPUs but one makes every other process fail with "invalid device
ordinal". The choice moves to the command line, where it holds for all processes alike.

Before::

    os.environ["CUDA_VISIBLE_DEVICES"] = "0"

After (start with ``CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc-per-node=2 train.py``)::

    (nothing)

Hiding all GPUs (``""`` or ``"-1"``) stays: it asks for the CPU.

Reference: https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.roles.values import Ext
from scaffold.rules import Diagnostic
from scaffold.source.edits import Author
from scaffold.source.tree import Source, dotted

ID = "SC402"
NAME = "visible-devices"
SEVERITY = "C"

_VARIABLE = "CUDA_VISIBLE_DEVICES"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Remove what sets the variable."""
    for source in plan.facts.project.sources:
        for node in source.nodes:
            value = _given(plan, source, node)
            if value is None or _hides_all(value):
                continue
            small = next(a for a in [node, *source.ancestors(node)] if isinstance(a, cst.BaseSmallStatement))
            parent = source.parents[node]
            if isinstance(node, cst.Arg) and isinstance(parent, cst.Call) and len(parent.args) > 1:
                author.remove_argument(source, parent, node)
            elif isinstance(node, cst.DictElement) and isinstance(parent, cst.Dict) and len(parent.elements) > 1:
                _remove_element(author, source, parent, node)
            else:
                author.remove(source, small)
            yield Diagnostic.at(
                ID, "note", source, node, f"the script chose its GPU by {_VARIABLE}, which would leave the other processes without one",
                f"choose outside, before torchrun: {_VARIABLE}=0,1 torchrun --nproc-per-node=2 ...",
            )  # fmt: skip


def _given(plan: Plan, source: Source, node: cst.CSTNode) -> cst.BaseExpression | None:
    """The value that a node gives to the variable: an assignment, a call, or one part of ``os.environ.update(...)``."""
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        target = node.targets[0].target
        if isinstance(target, cst.Subscript) and _is_environ(plan, target.value):
            index = target.slice[0].slice
            return node.value if isinstance(index, cst.Index) and _is_key(index.value) else None
    if isinstance(node, cst.Call) and len(node.args) == 2 and _is_key(node.args[0].value) and isinstance(source.parents[node], cst.Expr):
        setter = isinstance(node.func, cst.Attribute) and node.func.attr.value in {"setdefault", "__setitem__"} and _is_environ(plan, node.func.value)
        return node.args[1].value if setter or (dotted(node.func) or "").endswith("putenv") else None
    if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == _VARIABLE and _updates(plan, source.parents[node]):
        return node.value
    if isinstance(node, cst.DictElement) and _is_key(node.key):
        argument = source.parents[source.parents[node]]
        return node.value if isinstance(argument, cst.Arg) and _updates(plan, source.parents[argument]) else None
    return None


def _remove_element(author: Author, source: Source, owner: cst.Dict, element: cst.DictElement) -> None:
    index = owner.elements.index(element)
    if index + 1 < len(owner.elements):
        author.splice(source, source.span(element)[0], source.span(owner.elements[index + 1])[0], "")
    else:
        author.splice(source, source.span(owner.elements[index - 1])[1], source.span(element)[1], "")


def _updates(plan: Plan, node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "update" and _is_environ(plan, node.func.value)


def _is_environ(plan: Plan, node: cst.BaseExpression) -> bool:
    value = plan.facts.trace.value(node)
    return any(isinstance(o, Ext) and o.name == "os.environ" for o in value.objs) or dotted(node) == "os.environ"


def _is_key(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.SimpleString) and node.evaluated_value == _VARIABLE


def _hides_all(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.SimpleString) and value.evaluated_value in {"", "-1"}
