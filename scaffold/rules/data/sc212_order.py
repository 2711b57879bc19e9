"""Give sets and folder listings one order.

The order of a set of strings changes from process to process (their hashes are seeded at start), and a folder's listing from machine to machine.
Class indices and sample lists made from them then differ between ranks: one rank's cat is another's dog, without any error.

Before::

    classes = list(set(labels))
    files = glob.glob("data/*.png")

After::

    classes = sorted(set(labels))
    files = sorted(glob.glob("data/*.png"))

Lengths, sums, membership tests and sets made from sets depend on no order and stay as they are.

Reference: https://docs.python.org/3/reference/datamodel.html#object.__hash__
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.roles.trace import Event
from scaffold.roles.values import Seq, Val
from scaffold.rules import Diagnostic
from scaffold.source.edits import Author
from scaffold.source.tree import Source, walk

ID = "SC212"
NAME = "order"
SEVERITY = "W"

_LISTINGS = {"os.listdir", "glob.glob", "glob.iglob"}
_PATH_LISTINGS = {"glob", "rglob", "iterdir"}
_ORDERED_BY = {"sorted"}
_NO_ORDER = {"len", "sum", "min", "max", "any", "all", "set", "frozenset", "sorted", "Counter", "bool", "natsorted"}
_COPIES = {"list", "tuple"}
_ADDS = {"append", "extend", "insert", "write", "setdefault"}


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Sort listings where they are made and sets where they are gone through."""
    done: set[cst.CSTNode] = set()
    for event in plan.facts.trace.events:
        if event.node in done:
            continue
        if event.kind == "call" and isinstance(event.node, cst.Call):
            yield from _called(plan, author, event, event.node, done)
        elif event.kind == "iterate" and isinstance(event.node, (cst.For, cst.CompFor)):
            _iterated(plan, author, event, event.node, done)


def _called(plan: Plan, author: Author, event: Event, node: cst.Call, done: set[cst.CSTNode]) -> Iterable[Diagnostic]:
    source, short = event.source, event.name.rpartition(".")[2]
    if event.name in _LISTINGS or short in _PATH_LISTINGS and event.name.startswith(("?.", "pathlib.Path.")):
        done.add(node)
        if not _order_lost(source, node):
            _sort(author, source, node)
    elif event.name == "os.scandir":
        done.add(node)
        if not _order_lost(source, node) and not isinstance(source.parents[node], cst.WithItem):
            author.wrap(source, node, "sorted(", ", key=lambda entry: entry.name)")
    elif event.name in {"list", "tuple", "enumerate", "numpy.array", "numpy.asarray", "torch.tensor"} and node.args and _is_set(event.args[0] if event.args else None):
        done.add(node)
        if _order_lost(source, node):
            return
        if _unsortable(plan, event.args[0]):
            yield Diagnostic.at(
                ID, "warning", source, node, "the order of this set differs from process to process, and its members have no order of their own",
                "keep them in a list, or sort them by a key",
            )  # fmt: skip
        elif event.name == "list" and len(node.args) == 1:
            author.replace(source, node.func, "sorted")
        else:
            author.wrap(source, node.args[0].value, "sorted(", ")")
    elif event.name == "hash" and not _in_hash_method(source, node):
        done.add(node)
        yield Diagnostic.at(
            ID, "warning", source, node, "the hash of a string differs from process to process",
            "use a hash that does not, such as zlib.crc32(text.encode()), or start with PYTHONHASHSEED=0",
        )  # fmt: skip


def _iterated(plan: Plan, author: Author, event: Event, node: cst.For | cst.CompFor, done: set[cst.CSTNode]) -> None:
    """A loop over a set, or over the names that ``os.walk`` gives."""
    done.add(node)
    source = event.source
    if isinstance(node.iter, cst.Call):
        if any(t.of == "os.walk" for t in event.value.tags) and source.code(node.iter.func).endswith("walk"):
            _sort(author, source, node.iter)
        return
    walked = isinstance(node.iter, cst.Name) and any(t.kind == "entropy" and t.of == "os.walk" for t in event.value.tags)
    if not walked and not _is_set(event.value):
        return
    if _uses_order(source, node) and not _unsortable(plan, event.value):
        _sort(author, source, node.iter)


def _is_set(value: Val | None) -> bool:
    """Whether a value is a set whose members are not all numbers."""
    sets = [o for o in value.objs if isinstance(o, Seq)] if value is not None and any(t.kind == "entropy" and t.of == "set" for t in value.tags) else []
    if not sets or any(s.kind != "set" for s in sets):
        return False
    members = [m for s in sets for m in (*s.items, s.rest) if m is not None]
    consts = [c for m in members for c in m.consts()]
    return not (consts and len(consts) == sum(len(m.objs) for m in members) and all(isinstance(c, (int, float)) for c in consts))


def _unsortable(plan: Plan, value: Val) -> bool:
    """Whether a set's members are objects rather than names or numbers."""
    members = [m for s in value.objs if isinstance(s, Seq) for m in (*s.items, s.rest) if m is not None]
    return any(m.insts() or m.tagged("param", "grad") for m in members) or value.tagged("param")


def _order_lost(source: Source, node: cst.CSTNode) -> bool:
    """Whether what takes the value depends on no order, or sorts it."""
    parent = source.parents[node]
    if isinstance(parent, cst.Arg):
        call = source.parents[parent]
        if isinstance(call, cst.Call):
            short = call.func.attr.value if isinstance(call.func, cst.Attribute) else call.func.value if isinstance(call.func, cst.Name) else ""
            if short in _NO_ORDER or short in {"update", "isdisjoint", "issubset", "union"}:
                return True
            return short in _COPIES and _order_lost(source, call)
    if isinstance(parent, cst.ComparisonTarget):
        return True
    if isinstance(parent, (cst.UnaryOperation, cst.BooleanOperation)) or isinstance(parent, (cst.If, cst.While)) and parent.test is node:
        return True
    if isinstance(parent, cst.CompFor):
        comp = next(a for a in source.ancestors(parent) if not isinstance(a, cst.CompFor))
        return isinstance(comp, cst.SetComp) or isinstance(comp, (cst.ListComp, cst.GeneratorExp)) and _order_lost(source, comp)
    if isinstance(parent, cst.For):
        return not _uses_order(source, parent)
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        return _sorted_later(source, parent, source.code(parent.targets[0].target))
    return False


def _sorted_later(source: Source, assign: cst.Assign, name: str) -> bool:
    """Whether ``name.sort()`` or ``name = sorted(name)`` follows."""
    for node in walk(source.function(assign)):
        if isinstance(node, cst.Call) and source.span(node)[0] > source.span(assign)[0]:
            text = source.code(node.func)
            if text == f"{name}.sort" or text in _ORDERED_BY and node.args and source.code(node.args[0].value) == name and isinstance(source.parents[node], cst.Assign):
                return True
    return False


def _uses_order(source: Source, node: cst.For | cst.CompFor) -> bool:
    """Whether a loop leaves something behind that depends on the order of its rounds."""
    if isinstance(node, cst.CompFor):
        comp = next(a for a in source.ancestors(node) if not isinstance(a, cst.CompFor))
        return not isinstance(comp, cst.SetComp) and not (isinstance(comp, (cst.ListComp, cst.GeneratorExp)) and _order_lost(source, comp))
    for inner in walk(node.body):
        if isinstance(inner, cst.Call) and isinstance(inner.func, cst.Attribute) and inner.func.attr.value in _ADDS:
            return True
        if isinstance(inner, cst.AssignTarget) and isinstance(inner.target, cst.Subscript) or isinstance(inner, (cst.Yield, cst.Break)):
            return True
    return False


def _in_hash_method(source: Source, node: cst.CSTNode) -> bool:
    function = source.function(node)
    return isinstance(function, cst.FunctionDef) and function.name.value == "__hash__"


def _sort(author: Author, source: Source, node: cst.BaseExpression) -> None:
    author.wrap(source, node, "sorted(", ")")
