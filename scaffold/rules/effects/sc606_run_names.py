"""One run folder: a name made from the clock, a random identifier or the process is rank 0's on every rank.

Processes reach ``datetime.now()`` a moment apart. When a second passes between them, checkpoints land in two folders; a process ID or UUID
always differs.

Before::

    run_dir = os.path.join("runs", datetime.now().strftime("%m%d-%H%M%S"))
    os.makedirs(run_dir)

After::

    run_dir = from_rank_0(os.path.join("runs", datetime.now().strftime("%m%d-%H%M%S")))
    os.makedirs(run_dir)

Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.broadcast_object_list
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.files import opens_to_write, reads, tests_existence, writes
from scaffold.plan.outputs import outputs
from scaffold.plan.timing import nodes_at_import, training_loops
from scaffold.roles import api
from scaffold.roles.trace import Event
from scaffold.roles.values import Class, Ext, Func, Tag, Val
from scaffold.rules import Diagnostic
from scaffold.rules.common import broadcast_object
from scaffold.source.edits import Author
from scaffold.source.tree import Source, walk

ID = "SC606"
NAME = "run-names"
SEVERITY = "W"

_KEEPS = {"os.makedirs", "os.mkdir"}
_TEMPORARY = {"tempfile.mkdtemp", "tempfile.mkstemp", "tempfile.mktemp"}


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Take the names that reach a path from rank 0."""
    done: set[cst.CSTNode] = set()
    for tag in _names(plan):
        node = tag.at
        source = next((s for s in plan.facts.project.sources if node in s.parents), None)
        if node is None or source is None:
            continue
        if node in nodes_at_import(plan.facts):
            yield Diagnostic.at(
                ID, "error", source, node, "this name differs from process to process, and it is made while the module is imported, before they can agree",
                "make it in a function that is called after the set-up, or pass it on the command line",
            )  # fmt: skip
            continue
        whole = _whole(plan, source, node)
        if whole in done or _guarded(plan, source, whole):
            continue
        done.add(whole)
        if not any(a in done for a in source.ancestors(whole)):
            author.wrap(source, whole, f"{broadcast_object(plan, author, source)}(", ")")
    for event in plan.facts.trace.named(*_TEMPORARY):
        if isinstance(event.node, cst.Call) and event.node not in done:
            done.add(event.node)
            author.wrap(event.source, event.node, f"{broadcast_object(plan, author, event.source)}(", f" if {plan.is_main(author, event.source, event.node)} else None)")
    _numbered(plan, author)


def _names(plan: Plan) -> Iterator[Tag]:
    """The clock readings and identifiers that become part of a path."""
    facts = plan.facts
    seen: set[Tag] = set()
    shared = {e.node for e in facts.trace.of_kind("call") if e.name in _KEEPS or e.name.endswith(".mkdir")} | {r.node for r in reads(facts)}
    loops = training_loops(facts)
    for event, value in _paths(plan):
        for tag in value.tags:
            if tag in seen or tag.at is None or not (tag.kind in {"clock", "listing"} or _is_unseeded_draw(plan, tag)):
                continue
            if event.node in shared or not any(a in loops for a in event.source.ancestors(tag.at)):
                seen.add(tag)
                yield tag


def _is_unseeded_draw(plan: Plan, tag: Tag) -> bool:
    name = str(tag.of)
    if tag.kind != "draw" or not name.startswith(("random.", "numpy.random.")):
        return False
    return not plan.facts.trace.named("random.seed" if name.startswith("random.") else "numpy.random.seed")


def _paths(plan: Plan) -> Iterator[tuple[Event, Val]]:
    """Events that make, write or read something, with the value of the path."""
    trace = plan.facts.trace
    for access in (*writes(plan.facts), *reads(plan.facts)):
        yield access.event, trace.value(access.path)
    for event in trace.of_kind("call"):
        if event.name in _KEEPS or event.name in api.WRITERS or event.name == "logging.basicConfig" or opens_to_write(event):
            for value in (*event.args[:1], *(v for k, v in event.kwargs.items() if k in {"log_dir", "logdir", "filename", "name", "path"})):
                yield event, value
        elif event.name in {"?.mkdir", "pathlib.Path.mkdir"} and isinstance(event.node, cst.Call) and isinstance(event.node.func, cst.Attribute):
            yield event, trace.value(event.node.func.value)


def _whole(plan: Plan, source: Source, node: cst.CSTNode) -> cst.BaseExpression:
    """The expression that makes the name: up to the statement, or up to the argument of a call that does more than compute."""
    current = node
    while True:
        parent = source.parents[current]
        if isinstance(parent, cst.Arg):
            call = source.parents[parent]
            if not isinstance(call, cst.Call) or not _is_plain(plan, call):
                break
            current = call
        elif isinstance(parent, (cst.FormattedStringExpression, cst.Comparison, cst.ComparisonTarget)) or isinstance(parent, cst.BaseExpression) and not isinstance(parent, (cst.Lambda, cst.Dict, cst.List, cst.Tuple, cst.NamedExpr, cst.ListComp)):
            current = parent
        else:
            break
    assert isinstance(current, cst.BaseExpression)
    return current


_PLAIN = ("os.path.", "str", "int", "round", "time.", "datetime.", "pathlib.", "hex", "float", "repr", "uuid.", "hashlib.", "socket.", "len", "random.", "numpy.random.")


def _is_plain(plan: Plan, call: cst.Call) -> bool:
    """Whether a call only computes with its arguments."""
    objs = plan.facts.trace.value(call.func).objs
    if any(isinstance(o, (Func, Class)) for o in objs):
        return False
    names = [o.name for o in objs if isinstance(o, Ext)]
    if names:
        return all(n.startswith(_PLAIN) for n in names)
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in {"format", "join", "strftime", "isoformat", "replace", "joinpath", "lower", "strip"}


def _guarded(plan: Plan, source: Source, node: cst.CSTNode) -> bool:
    """Whether an expression stands in output that rank 0 alone runs, where a collective would wait for ever."""
    guarded = {o.node for o in outputs(plan.facts)} | {e.node for e in plan.facts.trace.of_kind("call") if e.name in api.EVENT_WRITERS}
    if any(a in guarded for a in source.ancestors(node)):
        return True
    return any(isinstance(a, cst.Call) and any(e.node is a for e in plan.facts.trace.named("open", "io.open")) for a in source.ancestors(node))


def _numbered(plan: Plan, author: Author) -> None:
    """``while os.path.exists(path): number += 1``: all ranks take the number that rank 0 found."""
    for event in plan.facts.trace.of_kind("branch"):
        node, source = event.node, event.source
        if not isinstance(node, cst.While) or not tests_existence(plan.facts, node.test):
            continue
        asked = {n.value for n in walk(node.test) if isinstance(n, cst.Name)}
        assigned = [t for t in walk(node.body) if isinstance(t, (cst.AssignTarget, cst.AugAssign)) and isinstance(t.target, cst.Name)]
        for name in dict.fromkeys(t.target.value for t in assigned if isinstance(t.target, cst.Name) and t.target.value in asked):
            author.after(source, node, f"{name} = {broadcast_object(plan, author, source)}({name})")
