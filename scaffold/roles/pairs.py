"""Operations that compare the samples of one batch with each other: what they give depends on which samples share a batch."""

from __future__ import annotations

import libcst as cst

from scaffold.roles.values import Tag, Val

_PRODUCTS = {"matmul", "mm", "linear"}
_ALL_PAIRS = {"cdist", "pdist"}
LIBRARIES = ("pytorch_metric_learning.losses.", "lightly.loss.", "info_nce.")
"""Losses over the pairs of a batch that other packages bring."""


def transposed(name: str, args: list[Val]) -> bool:
    """Whether a tensor attribute, method or function (``args``: its dimensions) swaps the samples' axis with the next."""
    if name in {"T", "t"}:
        return True
    axes = [a.consts() for a in args]
    return name in {"transpose", "swapaxes"} and sorted(map(str, (c[0] for c in axes if c))) == ["0", "1"]


def turn(node: cst.CSTNode, value: Val) -> Val:
    """``value`` with its samples along the second axis."""
    return Val(value.objs, value.tags | {Tag("turned", None, node)}) if value.tagged("rows") else value


def product(node: cst.CSTNode, left: Val, right: Val, result: Val) -> Val:
    """A matrix product: with the samples along both outer axes it holds one number for each pair."""
    if left.tagged("rows") and right.tagged("rows") and right.tagged("turned") and not left.tagged("turned"):
        return mark(node, result)
    return result


def function(node: cst.Call, name: str, args: list[Val], result: Val) -> Val:
    """A call of the torch function or tensor method ``name`` with the tensors ``args``."""
    if name in _PRODUCTS and len(args) > 1:
        return product(node, args[0], args[1], result)
    if name in _ALL_PAIRS and args and all(a.tagged("rows") for a in args[:2]):
        return mark(node, result)
    if name == "einsum" and len(args) > 2 and args[0].consts() and all(a.tagged("rows") for a in args[1:]):
        inputs, _, output = str(args[0].consts()[0]).replace(" ", "").partition("->")
        firsts = [part[:1] for part in inputs.split(",")]
        if len(set(firsts)) > 1 and all(letter in output for letter in firsts):
            return mark(node, result)
    if name in {"cosine_similarity", "CosineSimilarity", "pairwise_distance", "PairwiseDistance"}:
        return spread(node, [a.value for a in node.args], args, result)
    return result


def spread(node: cst.CSTNode, nodes: list[cst.BaseExpression], values: list[Val], result: Val) -> Val:
    """``x.unsqueeze(1)`` against ``y.unsqueeze(0)``, in an operator or a similarity: each sample against each."""
    axes = {_new_axis(n) for n, v in zip(nodes, values, strict=False) if v.tagged("rows")}
    return mark(node, result) if {0, 1} <= axes else result


def mark(node: cst.CSTNode, result: Val) -> Val:
    """``result`` as numbers about pairs of samples."""
    return Val(result.objs, result.tags | {Tag("pairs", None, node)})


def _new_axis(node: cst.CSTNode) -> int | None:
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "unsqueeze":
        place = node.args[0].value if node.args else None
        return int(place.value) if isinstance(place, cst.Integer) and place.value in {"0", "1"} else None
    if isinstance(node, cst.Subscript):
        for axis, element in enumerate(node.slice):
            inner = element.slice.value if isinstance(element.slice, cst.Index) else None
            if isinstance(inner, cst.Name) and inner.value == "None":
                return axis if axis < 2 else None
    return None
