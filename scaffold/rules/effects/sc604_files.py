"""Write each file once.

N processes that open one file for writing truncate and overwrite each other. Where a ``with`` block only writes, rank 0 alone runs it; a file
that stays open is the null device on the other ranks, so that nothing that is computed for it is skipped. Where all ranks read back what one
of them wrote, they wait for it.

Before::

    with open("metrics.json", "w") as f:
        json.dump(metrics, f)
    log = open("log.csv", "a")

After::

    if rank == 0:
        with open("metrics.json", "w") as f:
            json.dump(metrics, f)
    log = open("log.csv" if rank == 0 else os.devnull, "a")

Reference: https://docs.python.org/3/library/os.html#os.devnull
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.carried import local_kinds
from scaffold.plan.files import is_path_open, modes, opens_to_write, own_nodes, reads
from scaffold.plan.first import nodes_in_first
from scaffold.plan.outputs import outputs
from scaffold.plan.places import argument_at
from scaffold.roles.trace import Event
from scaffold.roles.values import Func
from scaffold.rules import Diagnostic
from scaffold.rules.effects.waiting import wait_before, written_before
from scaffold.source.edits import Author
from scaffold.source.tree import Source, walk

ID = "SC604"
NAME = "files"
SEVERITY = "W"

_ARCHIVES = {"h5py.File", "zipfile.ZipFile", "tarfile.open"}


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Guard blocks that only write, redirect files that stay open, and wait before reading what was written."""
    done: set[cst.CSTNode] = set()
    skip = nodes_in_first(plan.facts)
    for event in plan.facts.trace.of_kind("call"):
        node = event.node
        if not isinstance(node, cst.Call) or node in done or node in skip:
            continue
        archive = event.name in _ARCHIVES and _archive_written(event)
        if archive or opens_to_write(event):
            done.add(node)
            yield from _write_once(plan, author, event, node, archive)
    for access in reads(plan.facts):
        if access.event.name != "torch.load" and access.node not in skip and access.node not in done:
            done.add(access.node)
            if written_before(plan, access):
                wait_before(plan, author, access)


def _archive_written(event: Event) -> bool:
    value = event.argument(1, "mode")
    return value is not None and any(isinstance(m, str) and m[:1] in "wax" for m in value.consts())


def _write_once(plan: Plan, author: Author, event: Event, node: cst.Call, archive: bool) -> Iterable[Diagnostic]:
    source = event.source
    parent = source.parents[node]
    if isinstance(parent, cst.WithItem):
        block = source.parents[parent]
        if isinstance(block, cst.With) and len(block.items) == 1 and _only_writes(plan, source, block):
            author.guard(source, block, plan.is_main(author, source, node))
            return
    elif _written_in_statement(plan, source, node):
        return
    elif _is_chain(source, node):
        author.guard(source, source.statement(node), plan.is_main(author, source, node))
        return
    if archive or any("x" in m or "+" in m for m in modes(event)):
        yield Diagnostic.at(
            ID, "warning", source, node, "every process would write this file at once", "open it on rank 0 only, and guard what writes to it"
        )
        return
    _redirect(plan, author, event, node)


def _redirect(plan: Plan, author: Author, event: Event, node: cst.Call) -> None:
    source = event.source
    condition = plan.is_main(author, source, node)
    author.need(source, "import os")
    if is_path_open(event):
        assert isinstance(node.func, cst.Attribute)
        author.need(source, "from pathlib import Path")
        author.wrap(source, node.func.value, "(", f" if {condition} else Path(os.devnull))")
        return
    arg = argument_at(node, 0, "file") or argument_at(node, 0, "filename")
    if arg is not None:
        loose = isinstance(arg.value, cst.IfExp) and not arg.value.lpar
        author.wrap(source, arg.value, "(" if loose else "", f"{')' if loose else ''} if {condition} else os.devnull")


def _only_writes(plan: Plan, source: Source, block: cst.With) -> bool:
    """Whether a block can be skipped on a rank: it leaves nothing behind, computes nothing together, and leaves nowhere."""
    if _read_after(source, block) or plan.collective_calls(source, block):
        return False
    for node in own_nodes(block.body):
        if isinstance(node, (cst.Return, cst.Yield, cst.Raise, cst.Global, cst.Break, cst.Continue)):
            return False
        if isinstance(node, (cst.AssignTarget, cst.AugAssign)) and isinstance(node.target, (cst.Attribute, cst.Subscript)):
            return False
        if isinstance(node, cst.Call) and _computes(plan, node):
            return False
        if isinstance(node, cst.BaseExpression) and local_kinds(plan.facts, node, plan.sharded):
            return False
    return True


def _computes(plan: Plan, node: cst.Call) -> bool:
    """Whether a call runs a model or enters code of the project that changes something."""
    if any(e.node is node for e in plan.facts.trace.of_kind("forward", "method")):
        return True
    for obj in plan.facts.trace.value(node.func).objs:
        if isinstance(obj, Func) and obj.node is not None:
            inner = obj.node.body
            if any(isinstance(n, (cst.Global, cst.AugAssign, cst.Raise)) or isinstance(n, cst.AssignTarget) and isinstance(n.target, cst.Attribute) for n in walk(inner)):
                return True
    return False


def _read_after(source: Source, block: cst.With) -> bool:
    """Whether a variable that the block binds is read behind it before it is bound anew."""
    end = source.span(block)[1]
    names = {n.value for node in own_nodes(block) for n in _bound(node)}
    later = [n for n in walk(source.function(block)) if isinstance(n, cst.Name) and n.value in names and source.span(n)[0] >= end]
    stored = {n for node in walk(source.function(block)) for n in _bound(node)}
    first: dict[str, cst.Name] = {}
    for name in later:
        if not any(isinstance(a, (cst.BaseComp, cst.Param)) for a in source.ancestors(name)):
            first.setdefault(name.value, name)
    return any(n not in stored for n in first.values())


def _bound(node: cst.CSTNode) -> Iterable[cst.Name]:
    """The variables that a node binds."""
    if isinstance(node, (cst.AssignTarget, cst.AsName, cst.For, cst.AugAssign, cst.NamedExpr)):
        target = node.name if isinstance(node, cst.AsName) else node.target
        yield from (n for n in walk(target) if isinstance(n, cst.Name))


def _written_in_statement(plan: Plan, source: Source, node: cst.Call) -> bool:
    """Whether an output that is guarded itself has the file opened in its own arguments."""
    guarded = {o.node for o in outputs(plan.facts) if o.kind in {"file", "save", "print"}}
    return any(a in guarded and isinstance(source.parents[a], cst.Expr) for a in source.ancestors(node))


def _is_chain(source: Source, node: cst.Call) -> bool:
    """Whether a statement is ``open(...).write(...)`` and nothing else."""
    access = source.parents[node]
    call = source.parents.get(access)
    return isinstance(access, cst.Attribute) and isinstance(call, cst.Call) and call.func is access and isinstance(source.parents[call], cst.Expr)


