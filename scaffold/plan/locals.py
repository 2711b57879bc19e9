"""Where rank-local numbers are shown, stored or decided on, and which sub-expressions to make global."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from scaffold.plan.carried import local_kinds
from scaffold.plan.places import argument_for, parameters
from scaffold.roles.facts import Facts
from scaffold.source.tree import Source, children, dotted, walk

CLEAN = {"mean", "sum", "count"}
_PLAIN = (cst.FormattedString, cst.Tuple, cst.List, cst.Dict, cst.Set, cst.Arg, cst.StarredElement, cst.FormattedStringExpression, cst.Element, cst.DictElement, cst.ConcatenatedString)


@dataclass(frozen=True)
class Part:
    """An expression to make global; ``kind`` is mean, sum or count, or another kind that has no exact reduction."""

    node: cst.BaseExpression
    kind: str

    @property
    def clean(self) -> bool:
        """Whether an all-reduce gives the whole batch's value."""
        return self.kind in CLEAN


def parts(facts: Facts, source: Source, node: cst.CSTNode, data: set[object]) -> list[Part]:
    """The largest expressions under ``node`` that can be made global, and leaves that cannot."""
    if node in facts.changed:
        return []
    kinds = local_kinds(facts, node, data)
    is_expression = isinstance(node, cst.BaseExpression) and not isinstance(node, _PLAIN)
    if is_expression and len(kinds) == 1 and kinds <= CLEAN and not _is_text(facts, node) and not _is_container(facts, node):
        return [Part(node, kinds.pop())]  # type: ignore[arg-type]
    found: list[Part] = []
    for child in _inner(node):
        found += parts(facts, source, child, data)
    if not found and is_expression and kinds and isinstance(node, cst.Call) and len(node.args) == 1 and isinstance(node.args[0].value, cst.Name):
        node = node.args[0].value
    if not found and is_expression and kinds:
        kind = "rows" if kinds == {"rows"} else "ratio" if kinds == {"ratio"} else "mixed"
        return [Part(node, kind)]  # type: ignore[arg-type]
    return found


def sharing(facts: Facts, source: Source, found: list[Part], data: set[object]) -> list[Part]:
    """The parts of one statement, where an expression over a variable that is a part itself gives way to that variable."""
    names = {source.code(p.node) for p in found if p.clean and isinstance(p.node, cst.Name)}
    out: list[Part] = []
    for part in found:
        leaves = [n for n in walk(part.node) if isinstance(n, cst.Name) and local_kinds(facts, n, data)]
        if isinstance(part.node, cst.Name) or not leaves or not {n.value for n in leaves} <= names:
            out.append(part)
        else:
            out += [Part(n, next(iter(local_kinds(facts, n, data)))) for n in leaves]
    return out


def made_of(facts: Facts, source: Source, node: cst.CSTNode, data: set[object], depth: int = 0) -> list[tuple[Source, Part]] | None:
    """The clean parts that a variable (a message, say) was computed from, in its assignments or in the calls that pass it.

    None if it is not a variable, or one of its origins is not clean.
    """
    if not isinstance(node, cst.Name) or depth > 3:
        return None
    function = source.function(node)
    origins: list[tuple[Source, cst.CSTNode]] = []
    for inner in walk(function):
        if isinstance(inner, (cst.Assign, cst.AugAssign, cst.Call)) and source.span(inner)[0] >= source.span(node)[0]:
            continue
        if isinstance(inner, cst.Assign) and any(isinstance(t.target, cst.Name) and t.target.value == node.value for t in inner.targets):
            origins.append((source, inner.value))
        elif isinstance(inner, cst.AugAssign) and dotted(inner.target) == node.value:
            origins.append((source, inner.value))
        elif isinstance(inner, cst.Call) and isinstance(inner.func, cst.Attribute) and inner.func.attr.value in {"append", "extend"} and dotted(inner.func.value) == node.value:
            origins += [(source, a.value) for a in inner.args]
    if not origins and node.value in parameters(function):
        for frame in facts.called_from(function):
            arg = argument_for(frame.call, function, node.value)
            if arg is None or frame.caller is None:
                return None
            origins.append((frame.caller.source, arg.value))
    found: list[tuple[Source, Part]] = []
    for place, origin in dict.fromkeys(origins):
        for part in parts(facts, place, origin, data):
            if part.clean:
                found.append((place, part))
            else:
                deeper = made_of(facts, place, part.node, data, depth + 1) if part.node is not node else None
                if deeper is None:
                    return None
                found += deeper
    return found or None


def _inner(node: cst.CSTNode) -> list[cst.CSTNode]:
    if isinstance(node, cst.Call):
        inner = [node.func.value] if isinstance(node.func, cst.Attribute) else []
        return [*inner, *(a.value for a in node.args)]
    if isinstance(node, cst.Lambda):
        return []
    return list(children(node))


def _is_text(facts: Facts, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in {"format", "join", "strftime"}:
            return True
        return isinstance(node.func, cst.Name) and node.func.value in {"str", "repr", "print"}
    if isinstance(node, cst.BinaryOperation):
        strings = (cst.SimpleString, cst.FormattedString, cst.ConcatenatedString)
        return any(isinstance(x, strings) or _is_text(facts, x) for x in (node.left, node.right))
    return False


def _is_container(facts: Facts, node: cst.CSTNode) -> bool:
    from scaffold.roles.values import Map, Seq

    return any(isinstance(o, (Seq, Map)) for o in facts.trace.value(node).objs)


def accumulated(facts: Facts, source: Source, loop: cst.CSTNode, name: str, data: set[object]) -> list[Part]:
    """What a loop adds to ``name`` in each round, as parts that can be made global there; empty if one of them cannot."""
    found: list[Part] = []
    for node in walk(loop):
        target = node.target if isinstance(node, cst.AugAssign) else None
        if target is None or dotted(target) != name:
            continue
        assert isinstance(node, cst.AugAssign)
        found += parts(facts, source, node.value, data)
    return found if found and all(p.clean for p in found) else []
