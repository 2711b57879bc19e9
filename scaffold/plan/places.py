"""Finding places in the source: common blocks, arguments of calls, where a value is kept."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from scaffold.roles.facts import Facts
from scaffold.roles.trace import Frame
from scaffold.roles.values import Class, Inst
from scaffold.source.tree import Source, Statement, Suite


@dataclass(frozen=True)
class Storage:
    """Where a module is kept: a variable of ``owner`` (function or module), or an attribute set in class ``owner``."""

    kind: str
    source: Source
    owner: cst.CSTNode
    name: str


def suites(source: Source, node: cst.CSTNode) -> list[Suite]:
    """The blocks that enclose ``node``, innermost first, up to its function or module."""
    found: list[Suite] = []
    for parent in source.ancestors(node):
        if isinstance(parent, (cst.IndentedBlock, cst.SimpleStatementSuite, cst.Module)):
            found.append(parent)
        if isinstance(parent, (cst.FunctionDef, cst.ClassDef)):
            break
    return found


def common_suite(source: Source, nodes: list[cst.CSTNode]) -> Suite | None:
    """The innermost block that encloses all of ``nodes``."""
    if not nodes:
        return None
    shared = suites(source, nodes[0])
    for node in nodes[1:]:
        theirs = set(suites(source, node))
        shared = [s for s in shared if s in theirs]
    return next((s for s in shared if not isinstance(s, cst.SimpleStatementSuite)), None)


def statement_in(source: Source, suite: Suite, node: cst.CSTNode) -> Statement | None:
    """The direct child of ``suite`` that contains ``node``."""
    previous = node
    for parent in [node, *source.ancestors(node)]:
        if parent is suite:
            return previous  # type: ignore[return-value]
        previous = parent
    return None


def body_of(node: cst.CSTNode) -> Suite:
    """The block of a function, or the module itself."""
    return node if isinstance(node, cst.Module) else node.body  # type: ignore[attr-defined]


def argument_for(call: cst.CSTNode | None, function: cst.CSTNode, parameter: str) -> cst.Arg | None:
    """The argument of ``call`` that binds ``parameter`` of ``function``, if the call names it plainly."""
    if not isinstance(call, cst.Call) or not isinstance(function, cst.FunctionDef):
        return None
    if any(a.star for a in call.args):
        return None
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == parameter:
            return arg
    names = [p.name.value for p in (*function.params.posonly_params, *function.params.params)]
    positional = [a for a in call.args if a.keyword is None]
    if parameter not in names:
        return None
    index = names.index(parameter)
    if names and names[0] in {"self", "cls"} and (isinstance(call.func, cst.Attribute) or function.name.value == "__init__"):
        index -= 1
    return positional[index] if 0 <= index < len(positional) else None


def argument_at(call: cst.Call, position: int, keyword: str) -> cst.Arg | None:
    """The argument of a call given by position or keyword; None where it is not written plainly."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == keyword:
            return arg
    plain = call.args[: position + 1]
    if len(plain) > position and all(a.keyword is None and not a.star for a in plain):
        return plain[position]
    return None


def parameters(function: cst.CSTNode) -> set[str]:
    """Names of a function's parameters."""
    if not isinstance(function, (cst.FunctionDef, cst.Lambda)):
        return set()
    params = function.params
    return {p.name.value for p in (*params.posonly_params, *params.params, *params.kwonly_params)}


def storages(facts: Facts, expression: cst.BaseExpression, frame: Frame, depth: int = 0) -> list[Storage | None]:
    """Where the module that ``expression`` names is kept; None for each way that cannot be followed."""
    if depth > 8:
        return [None]
    if isinstance(expression, cst.Name):
        return _variable(facts, expression.value, frame, depth)
    if isinstance(expression, cst.Attribute):
        owners = [i for i in facts.trace.value(expression.value).insts() if isinstance(i.cls, Class)]
        classes = {o.cls for o in owners if isinstance(o.cls, Class) and expression.attr.value in o.attrs}
        if len(classes) == 1:
            cls = classes.pop()
            if cls.scope is not None and cls.node is not None:
                return [Storage("attr", cls.scope.source, cls.node, expression.attr.value)]
    return [None]


def _variable(facts: Facts, name: str, frame: Frame, depth: int) -> list[Storage | None]:
    scope = frame.scope
    while scope is not None and name not in scope.vars:
        scope = scope.parent  # type: ignore[assignment]
    if scope is None or isinstance(scope.node, cst.ClassDef):
        return [None]
    if name in parameters(scope.node):
        found: list[Storage | None] = []
        for active in facts.called_from(scope.node):
            arg = argument_for(active.call, scope.node, name)
            if arg is None or active.caller is None:
                return [None]
            found += storages(facts, arg.value, active.caller, depth + 1)
        return list(dict.fromkeys(found)) or [None]
    return [Storage("var", scope.source, scope.node, name)]


def holds(inst: Inst, name: str) -> bool:
    """Whether an attribute of an instance holds anything."""
    return name in inst.attrs
