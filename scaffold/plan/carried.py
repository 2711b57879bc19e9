"""Values that leave a loop over batches: what each rank accumulated, and where it is read."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from scaffold.roles.facts import Facts
from scaffold.roles.values import LOCAL
from scaffold.source.tree import Source, children, dotted, walk


@dataclass
class Carried:
    """A variable assigned in a loop and read after it; ``kinds`` as in :mod:`scaffold.roles.kinds`.

    ``reset`` says whether it starts afresh each time the loop starts, ``loads`` are its reads behind the loop.
    """

    name: str
    kinds: set[str]
    reset: bool
    loads: list[cst.Name | cst.Attribute] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The one kind that an all-reduce makes global, '' if there is none."""
        kinds = self.kinds - {"rows"}
        return next(iter(kinds)) if len(kinds) == 1 and kinds <= {"mean", "sum", "count"} else ""


def local_kinds(facts: Facts, node: cst.CSTNode, data: set[object]) -> set[str]:
    """How the value at ``node`` depends on rank-local ``data`` (empty when all ranks have the same)."""
    return {t.kind for t in facts.trace.value(node).tags if t.kind in LOCAL and t.of in data}


def carried(facts: Facts, source: Source, loop: cst.CSTNode, data: set[object]) -> list[Carried]:
    """The variables that carry rank-local values out of ``loop``."""
    assigned = _assigned(loop)
    end = source.span(loop)[1]
    found: dict[str, Carried] = {}
    function = source.function(loop)
    for node in sorted(own_nodes(function), key=lambda n: source.span(n)):
        if not isinstance(node, (cst.Name, cst.Attribute)):
            continue
        name = dotted(node)
        if name in assigned and name is not None and source.span(node)[0] >= end and _is_load(source, node) and follows(source, loop, node):
            kinds = local_kinds(facts, node, data)
            if kinds and not _rebound(source, node, name, loop):
                entry = found.setdefault(name, Carried(name, set(), _resets(source, loop, name)))
                entry.kinds |= kinds
                entry.loads.append(node)
    return list(found.values())


def follows(source: Source, loop: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether code that stands behind a loop can run after it: not if it is in another branch of the same ``if``."""
    around, outside = set(source.ancestors(node)), set(source.ancestors(loop))
    return not any(isinstance(a, cst.If) and a.body in outside and a.orelse in around for a in outside)


def own_nodes(function: cst.CSTNode) -> list[cst.CSTNode]:
    """Nodes of a function's own body, nested functions and classes left out."""
    out: list[cst.CSTNode] = []
    stack: list[cst.CSTNode] = [function.body] if isinstance(function, (cst.FunctionDef, cst.Lambda)) else list(function.body)  # type: ignore[attr-defined]
    while stack:
        node = stack.pop()
        out.append(node)
        if isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            continue
        stack += list(children(node))
    return [n for n in out if isinstance(n, cst.BaseExpression)]


def _assigned(loop: cst.CSTNode) -> set[str]:
    names: set[str] = set()
    for node in walk(loop):
        if isinstance(node, cst.AssignTarget):
            names |= _target_names(node.target)
        elif isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.NamedExpr, cst.For, cst.CompFor)):
            names |= _target_names(node.target)
    return names


def _target_names(target: cst.CSTNode) -> set[str]:
    if isinstance(target, (cst.Name, cst.Attribute)):
        name = dotted(target)
        return {name} if name else set()
    if isinstance(target, (cst.Tuple, cst.List)):
        return set().union(*(_target_names(e.value) for e in target.elements))
    if isinstance(target, cst.Subscript):
        return _target_names(target.value)
    return set()


def _is_load(source: Source, node: cst.Name | cst.Attribute) -> bool:
    parent = source.parents[node]
    if isinstance(parent, cst.Attribute) and parent.attr is node:
        return False
    if isinstance(parent, (cst.AssignTarget, cst.Param, cst.FunctionDef, cst.NameItem)):
        return False
    if isinstance(parent, (cst.AugAssign, cst.For, cst.CompFor, cst.AnnAssign)) and parent.target is node:
        return False
    outer = parent
    while isinstance(outer, (cst.Element, cst.Tuple, cst.List, cst.StarredElement)):
        outer = source.parents[outer]
    if outer is not parent and isinstance(outer, (cst.AssignTarget, cst.For, cst.CompFor)) and getattr(outer, "iter", None) is not parent:
        return not any(parent is x for x in walk(outer.target))
    return not (isinstance(parent, cst.Arg) and parent.keyword is node)


def _rebound(source: Source, load: cst.CSTNode, name: str, loop: cst.CSTNode) -> bool:
    """Whether a read behind the loop sees a plain assignment that stands between the two, in a block around the read."""
    after, before, around = source.span(loop)[1], source.span(load)[0], set(source.ancestors(load))
    for parent in around:
        if isinstance(parent, cst.For) and source.span(parent)[0] >= after and name in _target_names(parent.target):
            return True
        if not isinstance(parent, (cst.IndentedBlock, cst.Module)):
            continue
        for statement in parent.body:
            if isinstance(statement, cst.SimpleStatementLine) and after <= source.span(statement)[0] and source.span(statement)[1] <= before:
                for small in statement.body:
                    if isinstance(small, cst.Assign) and name in set().union(*(_target_names(t.target) for t in small.targets if not isinstance(t.target, cst.Subscript))):
                        reads = {dotted(n) for n in walk(small.value) if isinstance(n, (cst.Name, cst.Attribute))}
                        if name not in reads:
                            return True
    return False


def _resets(source: Source, loop: cst.CSTNode, name: str) -> bool:
    """Whether ``name`` is set before ``loop`` in each round of the loop around it, or is only set and never added to."""
    if not any(isinstance(n, cst.AugAssign) and name in _target_names(n.target) for n in walk(loop)) and not any(
        isinstance(n, cst.Assign)
        and any(name in _target_names(t.target) for t in n.targets)
        and any(isinstance(x, (cst.Name, cst.Attribute)) and dotted(x) == name for x in walk(n.value))
        for n in walk(loop)
    ):
        return not any(isinstance(n, cst.AssignTarget) and isinstance(n.target, cst.Subscript) and name in _target_names(n.target) for n in walk(loop)) or _set_before(
            source, loop, name
        )
    return _set_before(source, loop, name)


def _set_before(source: Source, loop: cst.CSTNode, name: str) -> bool:
    start = source.span(loop)[0]
    outer = next((a for a in source.ancestors(loop) if isinstance(a, (cst.For, cst.While, cst.FunctionDef))), source.tree)
    body = outer if isinstance(outer, cst.Module) else outer.body
    for node in walk(body):
        if isinstance(node, (cst.Assign, cst.AnnAssign)) and source.span(node)[0] < start:
            targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else [node.target]
            if any(name in _target_names(t) for t in targets):
                return True
    return False
