"""One TensorBoard writer, one tracked run, one log.

Every process makes its own ``SummaryWriter`` and its own run: event files interleave and curves appear N times. Rank 0 keeps them; the others
hold None, a disabled run, or a silenced log.

Before::

    writer = SummaryWriter(log_dir)
    wandb.init(project="digits")
    logging.basicConfig(filename="train.log")
    ...
    writer.add_scalar("loss", loss, step)

After::

    if rank != 0:
        logging.disable(logging.WARNING)
    writer = SummaryWriter(log_dir) if rank == 0 else None
    wandb.init(project="digits", mode=None if rank == 0 else "disabled")
    logging.basicConfig(filename="train.log" if rank == 0 else os.devnull)
    ...
    if rank == 0:
        writer.add_scalar("loss", loss, step)

Reference: https://docs.wandb.ai/guides/track/log/distributed-training/
and https://docs.pytorch.org/docs/stable/tensorboard.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.outputs import outputs
from scaffold.plan.places import argument_at
from scaffold.roles import api
from scaffold.roles.trace import Event
from scaffold.roles.values import Inst
from scaffold.rules import Diagnostic
from scaffold.rules.common import broadcast_object, keyword
from scaffold.rules.effects.sc601_print_once import guard_call
from scaffold.source.edits import HOIST, Author
from scaffold.source.tree import Source

ID = "SC603"
NAME = "writers"
SEVERITY = "W"

_HANDLERS = {"logging.FileHandler", "logging.handlers.RotatingFileHandler", "logging.handlers.TimedRotatingFileHandler", "logging.handlers.WatchedFileHandler"}
_MODES = {"wandb.init": "disabled", "swanlab.init": "disabled", "neptune.init_run": "debug", "neptune.init": "debug"}
_FOLDERS = {"log_dir", "logdir", "get_logdir"}
_ACCESSORS = {"wandb.", "swanlab."}


_BASE_INITS = {"super().__init__", "SummaryWriter.__init__"}


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Make writers, runs and log files on rank 0, and guard what uses them."""
    done: set[cst.CSTNode] = set()
    for event in plan.facts.trace.of_kind("call"):
        node = event.node
        if not isinstance(node, cst.Call) or node in done:
            continue
        owner = event.frame.owner
        if owner is not None and set(owner.bases()) & api.EVENT_WRITERS and event.source.code(node.func) in _BASE_INITS:
            guard_call(plan, author, event.source, node)
        elif event.name in api.EVENT_WRITERS:
            _make_once(plan, author, event.source, node)
        elif event.name.startswith("writer.") and _is_event_writer(event):
            _use_once(plan, author, event.source, node, event)
        elif event.name in _MODES:
            _disable(plan, author, event, node)
        elif event.name in _HANDLERS or event.name == "logging.basicConfig":
            _log_file(plan, author, event, node)
        elif event.name.startswith(api.TRACKERS) and not event.name.startswith(tuple(_ACCESSORS)):
            yield from _tracker(plan, author, event.source, node)
        else:
            continue
        done.add(node)
    _folders(plan, author)
    _silence(plan, author)


def _is_event_writer(event: Event) -> bool:
    return any(set(i.bases()) & api.EVENT_WRITERS for i in event.value.insts())


def _make_once(plan: Plan, author: Author, source: Source, node: cst.Call) -> None:
    """``SummaryWriter(...) if rank == 0 else None``."""
    condition = plan.is_main(author, source, node)
    parent = source.parents[node]
    if isinstance(parent, cst.IfExp) and parent.body is node:
        loose = isinstance(parent.test, (cst.BooleanOperation, cst.IfExp)) and not parent.test.lpar
        author.wrap(source, parent.test, f"{condition} and {'(' if loose else ''}", ")" if loose else "")
    elif isinstance(parent, cst.WithItem):
        author.need(source, "from contextlib import nullcontext")
        author.wrap(source, node, "", f" if {condition} else nullcontext()")
    elif isinstance(parent, (cst.Expr, cst.Attribute)):
        return
    else:
        inner = isinstance(parent, (cst.IfExp, cst.BooleanOperation, cst.Comparison))
        author.wrap(source, node, "(" if inner else "", f" if {condition} else None{')' if inner else ''}")


def _use_once(plan: Plan, author: Author, source: Source, node: cst.Call, event: Event) -> None:
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in _FOLDERS:
        return
    if not _knows_none(plan, source, node, set(event.value.insts())):
        guard_call(plan, author, source, node)


def _knows_none(plan: Plan, source: Source, node: cst.CSTNode, writers: set[Inst]) -> bool:
    """Whether the script already asks whether it has a writer."""
    child = node
    for parent in source.ancestors(node):
        if isinstance(parent, (cst.FunctionDef, cst.ClassDef)):
            break
        if isinstance(parent, cst.If) and child is parent.body:
            test: cst.BaseExpression = parent.test
            if isinstance(test, cst.Comparison) and isinstance(test.comparisons[0].operator, (cst.IsNot, cst.NotEqual)):
                test = test.left
            if set(plan.facts.trace.value(test).insts()) & writers:
                return True
        child = parent
    return False


def _folders(plan: Plan, author: Author) -> None:
    """``writer.log_dir`` read outside guarded output: all ranks get rank 0's."""
    guarded = {o.node for o in outputs(plan.facts)}
    for node, value in list(plan.facts.trace.values.items()):
        if not isinstance(node, cst.Attribute) or node.attr.value not in _FOLDERS:
            continue
        owners = plan.facts.trace.value(node.value).insts()
        source = next((s for s in plan.facts.project.sources if node in s.parents), None)
        if source is None or not any(i.qualified in api.EVENT_WRITERS for i in owners) or any(a in guarded for a in source.ancestors(node)):
            continue
        whole = source.parents[node] if isinstance(source.parents[node], cst.Call) else node
        if value is not None and not isinstance(source.parents[whole], cst.AssignTarget):
            author.wrap(source, whole, f"{broadcast_object(plan, author, source)}(", f" if {plan.is_main(author, source, node)} else None)")


def _disable(plan: Plan, author: Author, event: Event, node: cst.Call) -> None:
    """A run that records nothing on the other ranks: the tracker's own mode for it."""
    source, off = event.source, _MODES[event.name]
    condition = plan.is_main(author, source, node)
    given = keyword(node, "mode")
    if given is None:
        author.add_argument(source, node, f'mode=None if {condition} else "{off}"' if event.name != "neptune.init" else f'mode="async" if {condition} else "{off}"')
    else:
        loose = isinstance(given.value, (cst.IfExp, cst.Lambda)) and not given.value.lpar
        author.wrap(source, given.value, "(" if loose else "", f'{")" if loose else ""} if {condition} else "{off}"')


def _log_file(plan: Plan, author: Author, event: Event, node: cst.Call) -> None:
    """The log's file on rank 0, nowhere on the others."""
    source = event.source
    arg = keyword(node, "filename") if event.name == "logging.basicConfig" else argument_at(node, 0, "filename")
    if arg is None or isinstance(arg.value, cst.Name) and arg.value.value == "None":
        return
    author.need(source, "import os")
    loose = isinstance(arg.value, cst.IfExp) and not arg.value.lpar
    author.wrap(source, arg.value, "(" if loose else "", f"{')' if loose else ''} if {plan.is_main(author, source, node)} else os.devnull")


def _tracker(plan: Plan, author: Author, source: Source, node: cst.Call) -> Iterable[Diagnostic]:
    """Other trackers: statements are guarded, a run used as a context is replaced by an empty one, a run that is kept is reported."""
    parent = source.parents[node]
    condition = plan.is_main(author, source, node)
    if isinstance(parent, cst.Expr):
        guard_call(plan, author, source, node)
    elif isinstance(parent, cst.WithItem):
        author.need(source, "from contextlib import nullcontext")
        author.wrap(source, node, "", f" if {condition} else nullcontext()")
    elif isinstance(parent, (cst.Assign, cst.AnnAssign)):
        yield Diagnostic.at(
            ID, "warning", source, node, "each process would open a run of its own in the experiment tracker",
            f"open it where {condition} and guard what uses it",
        )  # fmt: skip


def _silence(plan: Plan, author: Author) -> None:
    """Messages below errors are logged by rank 0 alone."""
    setup = plan.setup
    if setup is None or not any(o.kind == "log" for o in outputs(plan.facts)):
        return
    author.need(setup.source, "import logging")
    rank = plan.names["rank"]
    author.before(setup.source, setup.anchor, f"if {rank} != 0:\n    logging.disable(logging.WARNING)", HOIST)
