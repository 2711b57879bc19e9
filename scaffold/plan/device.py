"""Whether a script trains on CUDA: always, by a test of its own, or never."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from scaffold.plan.setup import Setup
from scaffold.roles.facts import Facts
from scaffold.roles.trace import Event
from scaffold.source.tree import Source, dotted, walk


def device_kind(facts: Facts) -> str:
    """``cuda`` (always), ``maybe`` (by a test or an option) or ``cpu`` (never asks for CUDA)."""
    asks = [e for e in facts.trace.of_kind("call") if _asks(e)]
    literals = [(s, n) for s in facts.project.sources for n in s.nodes if isinstance(n, cst.SimpleString) and str(n.evaluated_value).startswith("cuda")]
    if not asks and not literals:
        chosen = [e for e in facts.trace.named("torch.device", "torch.set_default_device") if e.args and not e.args[0].consts()]
        return "maybe" if chosen else "cpu"
    fallback = any(e.name in {"torch.cuda.is_available", "torch.accelerator.is_available"} for e in facts.trace.of_kind("call"))
    always = [e for e in asks if e.name.endswith(".cuda") and not list(_tests(e.source, e.node))]
    always_named = [n for s, n in literals if not list(_tests(s, n)) and _moves(s, n)]
    return "maybe" if fallback or not (always or always_named) else "cuda"


def _asks(event: Event) -> bool:
    return event.name.endswith(".cuda") or event.name.startswith(("torch.cuda.", "torch.accelerator.")) and not event.name.startswith("torch.cuda.manual_seed")


def _moves(source: Source, node: cst.CSTNode) -> bool:
    """Whether a device's name is not merely the default of an option."""
    call = next((a for a in source.ancestors(node) if isinstance(a, cst.Call)), None)
    name = (dotted(call.func) or "") if call is not None else ""
    return not name.endswith(("add_argument", "option"))


def _tests(source: Source, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The tests that decide whether ``node`` runs."""
    child: cst.CSTNode = node
    for parent in source.ancestors(node):
        if isinstance(parent, cst.If) and child is not parent.test and "__name__" not in source.code(parent.test):
            yield parent.test
        elif isinstance(parent, cst.IfExp) and child is not parent.test:
            yield parent.test
        child = parent


def cuda_test(facts: Facts, setup: Setup, torch: str) -> str:
    """The script's own test for CUDA, if it can be read where the process group is made; else whether a GPU is there."""
    for source in [setup.source]:
        for node in source.nodes:
            named = isinstance(node, cst.SimpleString) and str(node.evaluated_value).startswith("cuda")
            moved = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in {"cuda", "current_accelerator"}
            if not named and not moved:
                continue
            for test in _tests(source, node):
                if _positive(source, test, node) and _readable(source, test, setup):
                    text = source.code(test)
                    sure = "is_available" in text or any("is_available" in source.code(v) for v in _values(source, test))
                    return text if sure else f"{text} and {torch}.cuda.is_available()"
    return f"{torch}.cuda.is_available()"


def _positive(source: Source, test: cst.BaseExpression, node: cst.CSTNode) -> bool:
    """Whether ``node`` runs where the test holds, and the test is about devices (a flag or a question), not about anything else."""
    parent = source.parents[test]
    body = parent.body if isinstance(parent, (cst.If, cst.IfExp)) else None
    inside = node is body or any(a is body for a in source.ancestors(node))
    plain = all(isinstance(n, (cst.Name, cst.Attribute, cst.UnaryOperation, cst.Not, cst.BooleanOperation, cst.And, cst.Call)) or not isinstance(n, cst.BaseExpression) for n in walk(test))
    return inside and plain and not any(isinstance(n, cst.Call) and "is_available" not in source.code(n) for n in walk(test))


def _readable(source: Source, test: cst.BaseExpression, setup: Setup) -> bool:
    """Whether every name in a test is set before the process group is made, in its block."""
    body = list(setup.suite.body)
    before = body[: body.index(setup.anchor)]
    known = {t.target.value for s in before for n in walk(s) if isinstance(n, cst.Assign) for t in n.targets if isinstance(t.target, cst.Name)}
    known |= {p.name.value for p in setup.scope.params.params} if isinstance(setup.scope, cst.FunctionDef) else set()
    heads = {n.value for n in walk(test) if isinstance(n, cst.Name) and not (isinstance(p := source.parents[n], cst.Attribute) and p.attr is n)}
    scope = source.function(test)
    return heads - {"torch"} <= known and scope in (setup.scope, source.function(setup.anchor))


def _values(source: Source, test: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What is assigned to the names (or attributes) of a test."""
    names = {dotted(n) for n in walk(test) if isinstance(n, (cst.Name, cst.Attribute))}
    return [n.value for n in source.nodes if isinstance(n, cst.Assign) and any(dotted(t.target) in names for t in n.targets)]
