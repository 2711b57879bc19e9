"""Where the process group is made: the block that everything worth guarding runs under, before the first of it."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from scaffold.plan.files import opens_to_write
from scaffold.plan.places import body_of, common_suite, statement_in
from scaffold.roles import api, calls
from scaffold.roles.facts import Facts
from scaffold.roles.trace import Event, Frame
from scaffold.source.tree import Source, Statement, Suite, walk


@dataclass(frozen=True)
class Setup:
    """``anchor`` is the statement that set-up comes before, in ``suite`` of function or module ``scope``."""

    source: Source
    scope: cst.CSTNode
    suite: Suite
    anchor: Statement


def find_setup(facts: Facts) -> Setup | None:
    """Find the place for ``init_process_group``; None when the entry does nothing worth it."""
    entry = facts.project.entry
    events = [e for e in facts.trace.events if _matters(e)]
    found = [(e, p) for e in events if (p := _path(e, entry)) is not None]
    flow = [p for _, p in found if isinstance(p[0][0].node, cst.Module)]
    trained = {p[0][0].node for e in facts.backwards if (p := _path(e, entry)) is not None}
    if not any(isinstance(n, cst.Module) for n in trained):
        flow = [p for _, p in found if p[0][0].node in trained and p[0][0].node is found_root(trained)]
    paths = flow
    if not paths:
        return None
    level = 0
    while True:
        nodes = [p[level][1] for p in paths]
        scope = paths[0][level][0].node
        source = paths[0][level][0].source
        inner = {id(p[level + 1][0].node) if len(p) > level + 1 else None for p in paths}
        if len(inner) == 1 and None not in inner and _enterable(facts, paths[0][level + 1][0]) and len(set(nodes)) == 1:
            level += 1
            continue
        return _within(source, scope, nodes)


def _within(source: Source, scope: cst.CSTNode, nodes: list[cst.CSTNode]) -> Setup | None:
    suite: Suite = body_of(scope)
    common = common_suite(source, nodes)
    if common is not None and common is not suite:
        parent = source.parents.get(common)
        if isinstance(parent, cst.If) and source.suite(parent) is suite and "__name__" in source.code(parent.test):
            suite = common
    statements = [s for n in nodes if (s := statement_in(source, suite, n)) is not None]
    if not statements:
        return None
    body = list(suite.body)
    first = min(statements, key=body.index)
    after = [body.index(s) for s in body if not isinstance(s, (cst.FunctionDef, cst.ClassDef)) and _reads_namespace(s)]
    later = [s for s in statements if not after or body.index(s) > max(after)]
    if after and later:
        first = min(later, key=body.index)
    return Setup(source, scope, suite, first)


def _reads_namespace(statement: cst.CSTNode) -> bool:
    """Whether a statement reads the script's own variables (a configuration file that sets globals): it must not see ours."""
    calls_by_name = (n for n in walk(statement) if isinstance(n, cst.Call) and isinstance(n.func, cst.Name))
    return any(n.func.value == "exec" or (n.func.value in {"globals", "locals", "vars"} and not n.args) for n in calls_by_name)  # type: ignore[attr-defined]


def _enterable(facts: Facts, frame: Frame) -> bool:
    return isinstance(frame.node, cst.FunctionDef) and len(facts.called_from(frame.node)) == 1 and frame.owner is None


def _path(event: Event, entry: Source) -> list[tuple[Frame, cst.CSTNode]] | None:
    """The frames from the entry down to the event, each with the node of its own body; None for import-time events."""
    out: list[tuple[Frame, cst.CSTNode]] = []
    node: cst.CSTNode | None = event.node
    for frame in event.frame.stack():
        if node is None:
            if isinstance(out[-1][0].node, cst.Module):
                return None
            break
        out.append((frame, node))
        node = frame.call
    out.reverse()
    return out if out[0][0].source is entry else None


def found_root(roots: set[cst.CSTNode]) -> cst.CSTNode | None:
    """The one function that a command-line library calls; None if there are several."""
    return next(iter(roots)) if len(roots) == 1 else None


_CUDA = ("torch.cuda.", "torch.accelerator.", "torch.backends.mps")


def _matters(event: Event) -> bool:
    if event.kind == "forward":
        return True
    if event.kind != "call":
        return False
    name = event.name
    if name in {"torch.cuda.is_available", "torch.accelerator.is_available"}:
        return False
    if name in api.PRINTS or name in api.SEEDS or name in api.FOLDER_CALLS or name in api.FILE_CALLS or name in api.BARS:
        return True
    if name in api.WRITERS or name in {"torch.save", "torch.load", "torch.device", "logging.basicConfig"} or name in api.CLOCKS:
        return True
    if name in api.READS_TERMINAL or name in api.SHELL_CALLS or name in api.FETCHES or name.endswith((".mkdir", ".extractall")) or opens_to_write(event):
        return True
    if name.startswith("logging.") and name.rpartition(".")[2] in api.LOGGER_METHODS:
        return True
    if name.startswith((*_CUDA, *api.TRACKERS, "logger.", "writer.", "torchvision.datasets.", "datasets.load", "torch.set_default_device")):
        return True
    if name in {"module.to", "module.cuda", "?.cuda", "?.to", "torch.utils.data.random_split"} or name in api.DATALOADERS:
        return True
    if name in api.DRAWS_TORCH or name.startswith(("numpy.random.", "random.")) or name in api.ENTROPY_SPLITS:
        return True
    return any(calls.role(i) in {"module", "optimizer", "loader", "scaler"} for i in event.result.insts()) and "." in name
