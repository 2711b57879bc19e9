"""Use this process's GPU instead of a fixed one.

``set_device(local_rank)`` in the set-up makes ``"cuda"`` mean this process's own GPU. A script that names ``cuda:0``, ``.cuda(0)`` or an index
from its command line puts every process on one GPU: out of memory, or NCCL's "Duplicate GPU detected".

Before::

    device = torch.device(f"cuda:{args.gpu}" if torch.cuda.is_available() else "cpu")
    net = net.cuda(0)
    torch.cuda.set_device(args.gpu)

After::

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = net.cuda()
    torch.cuda.set_device(local_rank)

A script that spreads one model over several GPUs by hand (``cuda:0`` and ``cuda:1``) can't be given one GPU a process: an error says so.

Reference: https://docs.pytorch.org/docs/stable/notes/cuda.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.places import argument_at
from scaffold.plan.settings import setting_of
from scaffold.roles.trace import Event
from scaffold.rules import Diagnostic
from scaffold.rules.common import keyword
from scaffold.source.edits import Author
from scaffold.source.tree import Source, walk

ID = "SC401"
NAME = "device-index"
SEVERITY = "C"

_INDEXED = re.compile(r"cuda:\d+")
_TEMPLATE = re.compile(r"cuda:(\{\w*\}|%[ds])")


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Drop the index wherever a device is named, and set the process's own where the script sets one."""
    fixed: dict[str, tuple[Source, cst.CSTNode]] = {}
    for source in plan.facts.project.sources:
        for node in source.nodes:
            if isinstance(node, cst.SimpleString) and isinstance(node.evaluated_value, str) and _INDEXED.fullmatch(node.evaluated_value):
                fixed.setdefault(node.evaluated_value, (source, node))
    if len(fixed) > 1 and not _only_remaps(fixed):
        source, node = fixed[max(fixed)]
        yield Diagnostic.at(
            ID, "error", source, node, "this script uses several GPUs in one process, and with one process a GPU they would all use the same ones",
            "put the whole model on one device first, then convert",
        )  # fmt: skip
        return
    for source in plan.facts.project.sources:
        for node in source.nodes:
            yield from _named(plan, author, source, node)
    done: set[cst.CSTNode] = set()
    for event in plan.facts.trace.of_kind("call"):
        if isinstance(event.node, cst.Call) and event.node not in done:
            done.add(event.node)
            _called(plan, author, event, event.node)


def _only_remaps(fixed: dict[str, tuple[Source, cst.CSTNode]]) -> bool:
    """Whether indices meet only in a ``map_location`` dictionary."""
    return all(any(isinstance(a, cst.Dict) for a in s.ancestors(n)) for s, n in list(fixed.values())[1:])


# ---- names of devices ----------------------------------------------------------------------------------------------


def _named(plan: Plan, author: Author, source: Source, node: cst.CSTNode) -> Iterable[Diagnostic]:
    quote = _quote(source, node)
    if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "map_location" and isinstance(node.value, cst.Dict):
        author.replace(source, node.value, '"cuda"')
    elif isinstance(node, cst.SimpleString) and isinstance(node.evaluated_value, str) and _INDEXED.fullmatch(node.evaluated_value):
        if not any(isinstance(a, cst.Dict) and _is_map_location(source, a) for a in source.ancestors(node)):
            author.replace(source, node, f"{quote}cuda{quote}")
            yield from _default(source, node)
    elif _is_built(node):
        if _varies(plan, node):
            yield Diagnostic.at(
                ID, "error", source, node, "the GPU's index changes from one use to the next, so one process would use several GPUs",
                "keep each process on one device, then convert",
            )  # fmt: skip
        else:
            author.replace(source, node, f"{quote}cuda{quote}")


def _default(source: Source, node: cst.CSTNode) -> Iterable[Diagnostic]:
    """The default of a command-line option: a user may still give an index."""
    call = next((a for a in source.ancestors(node) if isinstance(a, cst.Call)), None)
    if call is not None and isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_argument":
        yield Diagnostic.at(
            ID, "note", source, node, "a device given on the command line holds for every process", "give no index there: 'cuda' is each process's own GPU"
        )


def _is_map_location(source: Source, node: cst.Dict) -> bool:
    arg = source.parents[node]
    return isinstance(arg, cst.Arg) and arg.keyword is not None and arg.keyword.value == "map_location"


def _quote(source: Source, node: cst.CSTNode) -> str:
    text = source.code(node) if isinstance(node, (cst.SimpleString, cst.FormattedString, cst.BinaryOperation, cst.Call)) else ""
    return "'" if "'" in text and '"' not in text else '"'


def _is_built(node: cst.CSTNode) -> bool:
    """Whether an expression puts an index behind ``cuda:``."""
    if isinstance(node, cst.FormattedString):
        return len(node.parts) == 2 and isinstance(node.parts[0], cst.FormattedStringText) and node.parts[0].value == "cuda:"
    if isinstance(node, cst.BinaryOperation) and isinstance(node.left, cst.SimpleString) and isinstance(node.left.evaluated_value, str):
        if isinstance(node.operator, cst.Add):
            return node.left.evaluated_value == "cuda:"
        return isinstance(node.operator, cst.Modulo) and _TEMPLATE.fullmatch(node.left.evaluated_value) is not None
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "format" and isinstance(node.func.value, cst.SimpleString):
        return _TEMPLATE.fullmatch(str(node.func.value.evaluated_value)) is not None
    return False


def _varies(plan: Plan, node: cst.CSTNode) -> bool:
    return any(t.kind in {"offset", "step"} for inner in walk(node) for t in plan.facts.trace.value(inner).tags)


# ---- calls ---------------------------------------------------------------------------------------------------------


def _called(plan: Plan, author: Author, event: Event, node: cst.Call) -> None:
    source, short = event.source, event.name.rpartition(".")[2]
    if event.name in {"torch.cuda.set_device", "torch.cuda.device"}:
        arg = argument_at(node, 0, "device")
        if arg is not None:
            author.replace(source, arg.value, plan.local_rank(author, source, node))
    elif event.name == "torch.device":
        _device(plan, author, source, node)
    elif short == "cuda" and isinstance(node.func, cst.Attribute) and not event.name.startswith("torch."):
        arg = argument_at(node, 0, "device")
        if arg is not None and _is_index(plan, arg.value):
            author.remove_argument(source, node, arg)
    elif short == "to" and isinstance(node.func, cst.Attribute):
        arg = argument_at(node, 0, "device")
        if arg is not None and _is_index(plan, arg.value):
            author.replace(source, arg.value, '"cuda"')
    elif event.name.startswith("torch."):
        arg = keyword(node, "device")
        if arg is not None and _is_index(plan, arg.value):
            author.replace(source, arg.value, '"cuda"')


def _device(plan: Plan, author: Author, source: Source, node: cst.Call) -> None:
    """``torch.device("cuda", 0)`` and ``torch.device(0)``."""
    first, second = argument_at(node, 0, "type"), argument_at(node, 1, "index")
    if second is not None:
        author.remove_argument(source, node, second)
    elif first is not None and _is_index(plan, first.value):
        author.replace(source, first.value, '"cuda"')


def _is_index(plan: Plan, node: cst.BaseExpression) -> bool:
    """Whether an expression is the number of a GPU."""
    if not isinstance(node, (cst.Name, cst.Attribute, cst.Integer, cst.Subscript)):
        return False
    value = plan.facts.trace.value(node)
    if any(i.qualified == "torch.device" for i in value.insts()):
        return False
    if value.consts():
        return all(type(c) is int for c in value.consts()) and len(value.consts()) == len(value.objs)
    setting = setting_of(plan.facts, value)
    return setting is not None and setting.type == "int"
