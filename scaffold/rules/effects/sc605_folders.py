"""Make folders without a race, and remove files once.

All ranks test that a folder is missing and then all make it: every one but the first fails with ``FileExistsError``. Removing and moving is for
rank 0 alone; where a folder is emptied and then made again, the others wait until it is empty.

Before::

    if os.path.exists(out):
        shutil.rmtree(out)
    os.makedirs(out)

After::

    if os.path.exists(out):
        if rank == 0:
            shutil.rmtree(out)
    dist.barrier()  # rank 0 has emptied it
    os.makedirs(out, exist_ok=True)

Reference: https://docs.python.org/3/library/os.html#os.makedirs
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.first import nodes_in_first
from scaffold.plan.places import argument_at
from scaffold.plan.timing import at_import
from scaffold.roles import api
from scaffold.roles.trace import Event
from scaffold.rules import Diagnostic
from scaffold.rules.effects.sc601_print_once import guard_call
from scaffold.source.edits import Author
from scaffold.source.tree import Source, Statement

ID = "SC605"
NAME = "folders"
SEVERITY = "C"

_PATH_METHODS = {"unlink", "rmdir", "rename", "symlink_to", "touch", "hardlink_to"}
_MAKES = {"os.makedirs", "os.mkdir"}


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Let folders exist already, and guard what removes or moves."""
    done: set[cst.CSTNode] = set()
    skip = nodes_in_first(plan.facts)
    for event in plan.facts.trace.of_kind("call"):
        node = event.node
        if not isinstance(node, cst.Call) or node in done:
            continue
        if event.name in _MAKES or _is_path_method(event, {"mkdir"}):
            done.add(node)
            _make(author, event, node)
        elif node not in skip and (event.name in api.FOLDER_CALLS or _is_path_method(event, _PATH_METHODS)):
            done.add(node)
            yield from _remove(plan, author, event, node)


def _is_path_method(event: Event, names: set[str]) -> bool:
    owner, _, short = event.name.rpartition(".")
    return short in names and owner in {"?", "pathlib.Path"}


def _make(author: Author, event: Event, node: cst.Call) -> None:
    source = event.source
    method = event.name not in _MAKES
    if event.name == "os.mkdir":
        if isinstance(node.func, cst.Attribute):
            author.replace(source, node.func.attr, "makedirs")
        else:
            author.need(source, "import os")
            author.replace(source, node.func, "os.makedirs")
    given = argument_at(node, 2, "exist_ok")
    if given is None and not any(a.star for a in node.args):
        author.add_argument(source, node, "exist_ok=True")
    elif given is not None and isinstance(given.value, cst.Name) and given.value.value == "False" and (method or event.name == "os.makedirs"):
        author.replace(source, given.value, "True")


def _remove(plan: Plan, author: Author, event: Event, node: cst.Call) -> Iterable[Diagnostic]:
    source = event.source
    if not isinstance(source.parents[node], cst.Expr):
        if isinstance(source.parents[node], (cst.Assign, cst.Return)):
            yield Diagnostic.at(ID, "warning", source, node, "every process would move or remove this", "do it on rank 0 only")
        return
    guard_call(plan, author, source, node)
    if event.name == "shutil.rmtree" and _made_again(plan, event):
        if at_import(plan.facts, event):
            yield Diagnostic.at(ID, "error", source, node, "a folder is emptied while its module is imported, and nothing can make the other processes wait", "move it behind the set-up")
        else:
            author.after(source, _whole(source, source.statement(node)), f"{plan.dist(author, source)}.barrier()  # rank 0 has emptied it")


def _made_again(plan: Plan, event: Event) -> bool:
    later = (e for e in plan.facts.trace.of_kind("call") if e.order > event.order)
    return any(e.name in _MAKES or _is_path_method(e, {"mkdir"}) for e in later)


def _whole(source: Source, statement: Statement) -> Statement:
    """The outermost ``if`` that holds nothing but this statement."""
    while True:
        parent = source.parents.get(source.parents.get(statement, source.tree))
        if not isinstance(parent, cst.If) or parent.orelse is not None or len(parent.body.body) != 1 or isinstance(source.parents[parent], cst.If):
            return statement
        statement = parent
