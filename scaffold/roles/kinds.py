"""How a rank's number relates to the whole batch's: the algebra of rows, means, sums, counts and ratios.

With equal shares of a batch on every rank, the whole batch's mean is the average of the ranks' means and its sum is the
sum of their sums; a ratio of two sums is neither, unless the lower one counts samples. These functions carry that
distinction through arithmetic, tensor methods and losses.
"""

from __future__ import annotations

import libcst as cst

from scaffold.roles import api
from scaffold.roles.values import LOCAL, NOTHING, Tag, Val

_SHAPES = {"mask", "ragged", "turned"}
"""Tags about how samples lie in a tensor, lost when it is reduced."""


def retag(value: Val, kind: str) -> Val:
    """``value`` as data whose local parts are all of ``kind``; objects dropped."""
    kept = value.tags if kind == "rows" else (t for t in value.tags if t.kind not in _SHAPES)
    tags = frozenset(Tag(kind, t.of, t.at) if t.kind in LOCAL else t for t in kept)
    return Val((), tags) if tags else NOTHING


def only(value: Val) -> str | None:
    """The one local kind of ``value``, ``mixed`` if there are several, None if it is the same on every rank."""
    found = {t.kind for t in value.tags if t.kind in LOCAL}
    if not found:
        return None
    return found.pop() if len(found) == 1 else "mixed"


def _merge(left: Val, right: Val, kind: str) -> Val:
    tags = left.tags | right.tags
    return retag(Val((), tags), kind)


def computed(value: Val) -> Val:
    """What a library makes of several inputs: rows, if some of them are rows and others only say how many there are."""
    if not value.tagged("rows") or not value.tagged("count"):
        return value
    return Val(value.objs, frozenset(t for t in value.tags if t.kind != "count"))


def binary(operator: str, left: Val, right: Val, left_count: bool = False, right_count: bool = False) -> Val:
    """Result of arithmetic between two values; ``*_count`` says that a uniform operand is a batch size."""
    a, b = only(left), only(right)
    a = "count" if a is None and left_count else a
    b = "count" if b is None and right_count else b
    if a is None and b is None:
        tags = left.tags | right.tags
        return Val((), tags) if tags else NOTHING
    return _merge(left, right, _binary_kind(operator, a, b))


def _binary_kind(operator: str, a: str | None, b: str | None) -> str:
    if operator in {"Add", "Subtract"}:
        if a is None or b is None:
            return a or b or "mixed"
        if {a, b} == {"sum", "count"}:
            return "sum"
        if "rows" in (a, b):
            return "rows"
        if {a, b} == {"mean", "ratio"}:
            return "ratio"
        return a if a == b else "mixed"
    if operator == "Multiply":
        if a is None or b is None:
            return a or b or "mixed"
        if "rows" in (a, b):
            return "rows"
        if {a, b} == {"mean", "count"}:
            return "sum"
        if "inverse" in (a, b) and {a, b} & {"sum", "count"}:
            return "mean"
        if a == b == "mean":
            return "mixed"
        return "mixed"
    if operator in {"Divide", "FloorDivide"}:
        if b is None:
            return a or "mixed"
        if a is None:
            return {"rows": "rows", "count": "inverse"}.get(b, "mixed")
        if a == "rows" or b == "rows":
            return "rows"
        if b == "count":
            return "mean" if a in {"sum", "count"} else "mixed"
        if a in {"sum", "count"} and b == "sum":
            return "ratio"
        return "mixed"
    if "rows" in (a, b):
        return "rows"
    return "mixed"


_COMPARISONS = {"eq", "ne", "gt", "lt", "ge", "le", "bool", "isnan", "isfinite"}
_CONVERSIONS = {"float", "long", "int", "half", "double", "type", "type_as", "to"}
_DETACHING = {"detach", "item", "tolist", "numpy", "data", "argmax", "argmin", "detach_", "eq", "ne", "gt", "lt", "ge", "le"}


def without_grad(value: Val) -> Val:
    """``value`` cut off from the graph that made it."""
    if not value.tagged("grad"):
        return value
    return Val(value.objs, frozenset(t for t in value.tags if t.kind not in {"grad", "through"}))


def mask(value: Val, node: cst.CSTNode | None) -> Val:
    """``value`` as a yes or no for each row."""
    return Val(value.objs, value.tags | {Tag("mask", None, node)})


def ragged(value: Val, node: cst.CSTNode | None) -> Val:
    """``value`` as rows of which each rank has another number."""
    return Val(value.objs, value.tags | {Tag("ragged", None, node)}) if value.tagged("rows") else value


def tensor_method(name: str, owner: Val, dim: object, has_dim: bool) -> Val:
    """Result of ``owner.name(dim)`` for data that is not a known object."""
    if name.startswith("new_") or name in api.SAME_EVERYWHERE:
        return NOTHING
    if name in _COMPARISONS and only(owner) == "rows":
        return mask(without_grad(owner), None)
    if name in _CONVERSIONS:
        owner = Val(owner.objs, frozenset(t for t in owner.tags if t.kind != "mask"))
    if name in _DETACHING:
        owner = without_grad(owner)
    kind = only(owner)
    if kind is None:
        return Val((), owner.tags) if owner.tags else NOTHING
    if name in {"backward", "retain_grad"}:
        return NOTHING
    if kind == "rows":
        return _reduce_rows(name, owner, dim, has_dim)
    if name in api.TENSOR_EXTREMES or name in api.NONLINEAR:
        return retag(owner, "mixed")
    return Val((), owner.tags)


def curved(value: Val) -> Val:
    """A nonlinear function of data: of rows it is rows again, of a mean or sum it is neither."""
    return Val((), value.tags) if only(value) in (None, "rows") else retag(value, "mixed")


def _reduce_rows(name: str, owner: Val, dim: object, has_dim: bool) -> Val:
    if name in {"size", "shape"} and not has_dim:
        sizes = retag(owner, "count")
        return Val((), sizes.tags | {Tag("shape")})
    if name in {"size", "shape"}:
        return retag(owner, "count") if dim == 0 else without_local(owner)
    if name in {"numel", "nelement", "__len__"}:
        return retag(owner, "count")
    per_row = has_dim and dim not in (0, None)
    reduces = name in api.TENSOR_SUMS | api.TENSOR_MEANS
    if name in api.TENSOR_SPREADS and not per_row or reduces and dim == "unknown" and owner.tagged("grad"):
        return retag(owner, "mixed")
    if name in api.TENSOR_SUMS:
        return Val((), owner.tags) if per_row else retag(owner, "sum")
    if name in api.TENSOR_MEANS:
        return Val((), owner.tags) if per_row else retag(owner, "mean")
    if name in api.TENSOR_EXTREMES and not per_row and name not in {"argmax", "argmin", "unique"}:
        return retag(owner, "mixed")
    return Val((), owner.tags)


def without_local(value: Val) -> Val:
    """``value`` without the tags that make it differ between ranks."""
    tags = frozenset(t for t in value.tags if t.kind not in LOCAL)
    return Val((), tags) if tags else NOTHING


def changed(value: Val, kind: str) -> Val:
    """``value`` after an edit that makes its local parts ``whole`` (the whole batch's, on every rank) or a ``mean``."""
    return Val(value.objs, frozenset(Tag(kind, t.of, t.at) if t.kind in LOCAL else t for t in value.tags))


def loss(inputs: Val, reduction: object) -> Val:
    """Result of a loss function over a batch: its reduction says which kind."""
    if only(inputs) is None:
        return Val((), inputs.tags) if inputs.tags else NOTHING
    if reduction == "sum":
        return retag(inputs, "sum")
    if reduction == "none":
        return retag(inputs, "rows")
    return retag(inputs, "mean")
