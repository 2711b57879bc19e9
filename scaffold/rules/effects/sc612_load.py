"""Load a checkpoint on every rank, each onto its own device, after it is written.

Without ``map_location`` every process loads onto the GPU that saved, which costs GPU 0 a context and a copy for each of them. A rank that loads
what rank 0 is still writing gets a torn file, or the one before.

Before::

    torch.save(net.state_dict(), "best.pt")
    ...
    net.load_state_dict(torch.load("best.pt"))

After::

    if rank == 0:
        torch.save(net.state_dict(), "best.pt")
    ...
    dist.barrier()  # the file is written by rank 0
    net.load_state_dict(torch.load("best.pt", map_location=device))

Reference: https://docs.pytorch.org/docs/stable/generated/torch.load.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.device import cuda_test
from scaffold.plan.files import reads
from scaffold.plan.first import nodes_in_first
from scaffold.plan.places import argument_at
from scaffold.roles.trace import Event
from scaffold.roles.values import Scope
from scaffold.rules import Diagnostic
from scaffold.rules.effects.waiting import wait_before, written_before
from scaffold.source.edits import Author
from scaffold.source.tree import Source, walk

ID = "SC612"
NAME = "load"
SEVERITY = "C"

_LOADS = ("torch.load", "torch.jit.load")
_CPU_ONLY = {"set_rng_state", "set_rng_state_all"}
_MODULE_USES = {"__call__", "eval", "train", "parameters", "cuda", "to", "forward", "generate"}


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Give each ``torch.load`` a device, and let it wait for the save before it."""
    loads = plan.facts.trace.named(*_LOADS)
    for event in {e.node: e for e in loads}.values():
        assert isinstance(event.node, cst.Call)
        given = argument_at(event.node, 1, "map_location")
        if plan.device == "cpu" or plan.setup is None or (given is not None and not _is_none(given.value)):
            continue
        device = _device(plan, event, event.node)
        if given is None:
            author.add_argument(event.source, event.node, f"map_location={device}")
        else:
            author.replace(event.source, given.value, device)
    for access in {a.node: a for a in reads(plan.facts) if a.event.name in _LOADS}.values():
        if access.node not in nodes_in_first(plan.facts) and written_before(plan, access):
            wait_before(plan, author, access)
    return
    yield


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def _device(plan: Plan, event: Event, node: cst.Call) -> str:
    """The device variable in sight for weights, the CPU for what is copied or must stay there."""
    uses = set(_uses(event.source, node))
    if uses & _CPU_ONLY or not uses & {"load_state_dict", *_MODULE_USES}:
        return '"cpu"'
    name = _device_name(event)
    if name is not None:
        return name
    if "load_state_dict" in uses:
        return '"cpu"'
    return '"cuda"' if plan.device == "cuda" else f'"cuda" if {_test(plan, event)} else "cpu"'


def _test(plan: Plan, event: Event) -> str:
    """The script's test for CUDA where its names can be seen, else whether a GPU is there."""
    assert plan.setup is not None
    text = cuda_test(plan.facts, plan.setup, "torch")
    heads = {n.value for n in walk(cst.parse_expression(text)) if isinstance(n, cst.Name)}
    known: set[str] = {"torch"}
    scope: Scope | None = event.frame.scope
    while scope is not None:
        known |= scope.vars.keys()
        scope = scope.parent
    attributes = {n.attr.value for n in walk(cst.parse_expression(text)) if isinstance(n, cst.Attribute)}
    return text if heads - attributes <= known else "torch.cuda.is_available()"


def _uses(source: Source, node: cst.Call) -> Iterable[str]:
    """Methods that take what is loaded as an argument, or are called on it."""
    names: set[str] = set()
    parent = source.parents[node]
    if isinstance(parent, cst.Assign):
        names = {source.code(t.target) for t in parent.targets}
    for call in walk(source.function(node) if not any(n.startswith("self.") for n in names) else source.tree):
        if not isinstance(call, cst.Call) or call is node:
            continue
        if _is_named(source, call.func, names):
            yield "__call__"
        short = call.func.attr.value if isinstance(call.func, cst.Attribute) else call.func.value if isinstance(call.func, cst.Name) else ""
        if any(inner is node or _is_named(source, inner, names) for a in call.args for inner in walk(a.value)):
            yield short
        if isinstance(call.func, cst.Attribute) and (call.func.value is node or source.code(call.func.value) in names):
            yield short


def _is_named(source: Source, node: cst.CSTNode, names: set[str]) -> bool:
    return isinstance(node, (cst.Name, cst.Attribute)) and source.code(node) in names


def _device_name(event: Event) -> str | None:
    """A variable of the function, an attribute of ``self``, or a module variable that holds the device at the load."""
    source, frame = event.source, event.frame
    scope: Scope | None = frame.scope
    while scope is not None:
        for name, value in scope.vars.items():
            insts = value.insts()
            if insts and all(i.qualified == "torch.device" for i in insts) and _bound_before(source, name, event.node, scope):
                return name
        scope = scope.parent
    if frame.owner is not None:
        for name, value in frame.owner.attrs.items():
            if any(i.qualified == "torch.device" for i in value.insts()):
                return f"self.{name}"
    return None


def _bound_before(source: Source, name: str, node: cst.CSTNode, scope: Scope) -> bool:
    """Whether a variable has its value when the load runs: a parameter, an outer variable, or one assigned above."""
    if scope.node is not source.function(node):
        return scope.source is source
    if isinstance(scope.node, cst.FunctionDef) and name in {p.name.value for p in (*scope.node.params.params, *scope.node.params.kwonly_params)}:
        return True
    return any(isinstance(n, cst.AssignTarget) and source.code(n.target) == name and source.span(n)[0] < source.span(node)[0] for n in walk(scope.node))
