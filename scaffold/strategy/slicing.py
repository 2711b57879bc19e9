"""Cut out of a script the code that builds one thing (the model, a loader), and nothing else.

Backwards from the assignment: the statements that bind a name that is read, in its function, in the callers whose arguments it
takes, and at the top of the module. Nothing that trains is kept: no statement with a ``backward``.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

import libcst as cst

from scaffold.plan.places import argument_for, parameters, statement_in, suites
from scaffold.roles.facts import Facts
from scaffold.roles.trace import Frame
from scaffold.roles.values import Inst
from scaffold.source.tree import Source, children, walk

TARGET = "scaffold_target"
"""The variable that holds what the sliced code builds."""


@dataclass
class _Slice:
    facts: Facts
    lines: list[str] = field(default_factory=list)


def slice_for(facts: Facts, inst: Inst) -> str | None:
    """Python text that builds ``inst`` and binds it to ``TARGET``; ``None`` if its assignment was not found."""
    places = [(n, f) for n, f in facts.trace.assigned.get(inst, []) if not _inside_module(facts, f)]
    for target, frame in places:
        statement = next((a for a in frame.source.ancestors(target) if isinstance(a, cst.Assign)), None)
        if statement is None or _is_copy(statement.value, target):
            continue
        needed = _reads(statement.value)
        lines = _before(facts, frame, target, needed)
        code = frame.source.code(statement.value)
        after = _frozen_after(facts, frame, target)
        name = frame.source.code(target) if isinstance(target, cst.Name) else TARGET
        tail = [f"{TARGET} = ({code})"] + ([f"{name} = {TARGET}", *after, f"{TARGET} = {name}"] if after else [])
        return "\n".join([*lines, *tail]) + "\n"
    return None


def _inside_module(facts: Facts, frame: Frame) -> bool:
    from scaffold.roles import calls

    return any(f.owner is not None and calls.role(f.owner) == "module" for f in frame.stack())


def _is_copy(value: cst.BaseExpression, target: cst.CSTNode) -> bool:
    """``self.model = model``: the thing is made elsewhere."""
    return isinstance(value, (cst.Name, cst.Attribute))


def _before(facts: Facts, frame: Frame, node: cst.CSTNode, needed: set[str]) -> list[str]:
    """Code of ``frame`` and its callers that binds the names in ``needed``, in order; what is still needed goes to the module's top."""
    source = frame.source
    lines: list[str] = []
    for suite in suites(source, node):
        here = statement_in(source, suite, node)
        body = list(suite.body)
        for statement in reversed(body[: body.index(here)]):  # type: ignore[arg-type]
            if _binds(statement) & needed and not _trains(statement) and (frame.node is not source.tree or isinstance(source.parents[statement], cst.IndentedBlock)):
                lines[:0] = _text(source, statement)
                needed |= _reads(statement)
        loop = source.parents.get(suite)
        if isinstance(loop, cst.For) and _binds(loop.target) & needed:
            lines[:0] = [f"{source.code(loop.target)} = next(iter({source.code(loop.iter)}))"]
            needed |= _reads(loop.iter)
    if isinstance(frame.node, cst.FunctionDef) and frame.caller is not None and frame.call is not None:
        bound: list[str] = []
        outer: set[str] = set()
        for name in sorted(parameters(frame.node) & needed):
            arg = argument_for(frame.call, frame.node, name)
            if arg is not None:
                bound.append(f"{name} = {frame.caller.source.code(arg.value)}")
                outer |= _reads(arg.value)
            elif (default := _default(frame.node, name)) is not None:
                bound.append(f"{name} = {source.code(default)}")
        needed -= parameters(frame.node)
        top = _top(facts, source, needed) if source is not frame.caller.source else []
        if source is frame.caller.source:
            outer |= needed
        return [*top, *_before(facts, frame.caller, frame.call, outer), *bound, *lines]
    return [*_top(facts, source, needed), *lines]


def _default(function: cst.FunctionDef, name: str) -> cst.BaseExpression | None:
    params = function.params
    return next((p.default for p in (*params.posonly_params, *params.params, *params.kwonly_params) if p.name.value == name), None)


def _top(facts: Facts, source: Source, needed: set[str]) -> list[str]:
    """The statements at the top of a module that bind what is needed, and what these need in turn."""
    kept: set[cst.CSTNode] = set()
    wanted = set(needed)
    changed = True
    while changed:
        changed = False
        for statement in source.tree.body:
            if statement not in kept and _binds(statement) & wanted and not _trains(statement):
                kept.add(statement)
                wanted |= _reads(statement)
                changed = True
    return [line for s in source.tree.body if s in kept for line in _text(source, s)]


def _text(source: Source, statement: cst.CSTNode) -> list[str]:
    start, end = source.lines_of(statement)
    return textwrap.dedent(source.data[start:end].decode("utf-8")).rstrip().splitlines()


def _binds(node: cst.CSTNode) -> set[str]:
    """Names that a statement binds or changes: ``x = …``, ``x.add(…)``, ``x[…] = …``, definitions, imports."""
    if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
        return {node.name.value}
    if isinstance(node, cst.Name):
        return {node.value}
    found: set[str] = set()
    stack: list[cst.CSTNode] = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.For, cst.NamedExpr)):
            found |= _roots(current.target)
        elif isinstance(current, cst.ImportAlias):
            found.add(current.evaluated_alias or current.evaluated_name.partition(".")[0])
        elif isinstance(current, cst.ImportFrom) and isinstance(current.names, cst.ImportStar):
            found.add("*")
        elif isinstance(current, cst.Expr) and isinstance(current.value, cst.Call) and isinstance(current.value.func, cst.Attribute):
            found |= _roots(current.value.func)
        elif isinstance(current, cst.AsName):
            found |= _roots(current.name)
        if isinstance(current, (cst.FunctionDef, cst.ClassDef)):
            found.add(current.name.value)
        elif not isinstance(current, cst.Lambda):
            stack += list(children(current))
    return found


def _roots(target: cst.CSTNode) -> set[str]:
    if isinstance(target, cst.Name):
        return {target.value}
    if isinstance(target, (cst.Attribute, cst.Subscript)):
        return _roots(target.value)
    if isinstance(target, (cst.Tuple, cst.List)):
        return set().union(*(_roots(e.value) for e in target.elements))
    return set()


def _reads(node: cst.CSTNode) -> set[str]:
    return {n.value for n in walk(node) if isinstance(n, cst.Name)}


def _trains(statement: cst.CSTNode) -> bool:
    if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
        return False
    return any(isinstance(n, cst.Attribute) and n.attr.value in {"backward", "step", "init_process_group"} for n in walk(statement))


def _frozen_after(facts: Facts, frame: Frame, target: cst.CSTNode) -> list[str]:
    """Statements behind the assignment that say which parameters train."""
    if not isinstance(target, cst.Name):
        return []
    suite = suites(frame.source, target)[0]
    body = list(suite.body)
    here = statement_in(frame.source, suite, target)
    found: list[str] = []
    for statement in body[body.index(here) + 1 :]:  # type: ignore[arg-type]
        if _trains(statement):
            break
        text = frame.source.code(statement)
        names = _reads(statement)
        if target.value in names and ("requires_grad" in text or "get_peft_model" in text or "freeze" in text):
            found += _text(frame.source, statement)
    return found
