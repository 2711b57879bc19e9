"""Statements that one process of each machine must run before the others: downloads, unpacking, caches built when missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import libcst as cst

from scaffold.plan.files import Access, own_nodes, path_keys, reads, same_file, tests_existence, writes
from scaffold.plan.timing import at_import, in_training
from scaffold.roles import api
from scaffold.roles.facts import Facts
from scaffold.roles.trace import Event
from scaffold.source.tree import Source, Statement


@dataclass(frozen=True)
class First:
    """``statements`` are neighbours in one block; ``event`` is what makes them so.

    ``once`` says that the others may skip them, for they leave nothing but files behind. ``why_not`` says why no barrier can be put around them.
    """

    source: Source
    statements: tuple[Statement, ...]
    event: Event
    why_not: str = ""
    once: bool = False


@lru_cache(maxsize=8)
def first_blocks(facts: Facts) -> tuple[First, ...]:
    """The blocks to run on one process of each machine first, neighbours joined."""
    found: dict[cst.CSTNode, First] = {}
    for event, path in _causes(facts):
        for block in _blocks(facts, event, path):
            found.setdefault(block.statements[0], block)
    inner = {s for s, b in found.items() if any(a in found for a in b.source.ancestors(s))}
    return tuple(_joined([b for s, b in found.items() if s not in inner]))


@lru_cache(maxsize=8)
def nodes_in_first(facts: Facts) -> frozenset[cst.CSTNode]:
    """Nodes of events that happen while such a block runs, in it or in functions that it calls."""
    held = {s for b in first_blocks(facts) if not b.why_not for s in b.statements}
    if not held:
        return frozenset()
    return frozenset(e.node for e in facts.trace.events if _runs_in(e, held))


def _runs_in(event: Event, statements: set[Statement]) -> bool:
    node: cst.CSTNode | None = event.node
    for frame in event.frame.stack():
        if node is None or node not in frame.source.parents:
            return False
        if node in statements or any(a in statements for a in frame.source.ancestors(node)):
            return True
        node = frame.call
    return False


def _causes(facts: Facts) -> Iterator[tuple[Event, Access | None]]:
    """Events that fetch or build what others read; with the file, where one is written."""
    for event in facts.trace.of_kind("call"):
        if isinstance(event.node, cst.Call) and not in_training(facts, event) and fetches(event):
            yield event, None
    for access in writes(facts):
        if not in_training(facts, access.event):
            yield access.event, access


def fetches(event: Event) -> bool:
    """Whether a call downloads or unpacks files without a lock of its own."""
    wanted = event.kwargs.get("download")
    if wanted is not None and not event.name.endswith("()"):  # a class of the script's own is looked into
        return wanted.consts() != [False]
    if event.name in api.FETCHES or event.name.endswith(api.FETCHING) or (event.name.rpartition(".")[2] == "extractall" and "." in event.name):
        return True
    if event.name in api.SHELL_CALLS and event.args:
        words = {w.strip("!;&|") for text in event.args[0].consts() if isinstance(text, str) for w in text.split()}
        return bool(words & api.FETCHING_COMMANDS)
    return False


def _blocks(facts: Facts, event: Event, written: Access | None) -> Iterator[First]:
    """The statement that asks whether the work is done, in the event's function or a caller; else the fetching statement."""
    frame, node = event.frame, event.node
    for _ in range(4):
        source = frame.source
        gate = _gate(facts, source, node)
        early = None if gate is not None else _early_return(facts, source, node)
        if (gate is not None and (written is None or _is_cache(facts, gate, written, source))) or (early is not None and (written is None or _is_cache(facts, early, written, source))):
            statement: cst.CSTNode = gate if gate is not None and not _leaves(gate) else source.function(node)
            yield from _at(facts, event, source, statement, node)
            return
        if frame.call is None or frame.caller is None or isinstance(frame.node, cst.Module):
            break
        node, frame = frame.call, frame.caller
    if written is None:
        statement = _with_block(event.source, event.source.statement(event.node))
        once = "download" not in event.kwargs and _leaves_files_only(statement)
        for block in _at(facts, event, event.source, statement, event.node):
            yield replace(block, once=once and block.statements == (statement,))


def _with_block(source: Source, statement: Statement) -> Statement:
    """The ``with`` that a statement stands in, else the statement."""
    while isinstance(parent := source.parents.get(source.suite(statement)), cst.With):
        statement = parent
    return statement


def _leaves_files_only(statement: Statement) -> bool:
    """Whether a statement binds no variable: a bare call, or a ``with`` block of such."""
    if isinstance(statement, cst.SimpleStatementLine):
        return all(isinstance(s, cst.Expr) for s in statement.body)
    return isinstance(statement, cst.With)


def _at(facts: Facts, event: Event, source: Source, where: cst.CSTNode, node: cst.CSTNode, depth: int = 0) -> Iterator[First]:
    """A block at a statement; a ``return`` moves to the callers' statements."""
    statement = where if not isinstance(where, (cst.FunctionDef, cst.Module, cst.Lambda)) else None
    if statement is not None and not _leaves(statement):
        assert isinstance(statement, (cst.SimpleStatementLine, cst.BaseCompoundStatement, cst.BaseSmallStatement))
        yield First(source, (statement,), event, _trouble(facts, event, source, statement))
        return
    function = source.function(node)
    callers = [f for f in facts.called_from(function) if f.call is not None and f.caller is not None] if depth < 4 else []
    if not callers:
        yield First(source, (source.statement(node),), event, "its result leaves the function at once")
    for frame in callers:
        assert frame.caller is not None and frame.call is not None
        place = frame.caller.source
        if frame.call in place.parents:
            yield from _at(facts, event, place, place.statement(frame.call), frame.call, depth + 1)


def _trouble(facts: Facts, event: Event, source: Source, statement: Statement) -> str:
    if at_import(facts, event):
        return "it runs while its module is imported, before there is a process group"
    held = {statement}
    if any(_runs_in(e, held) for e in facts.backwards):
        return "the same statement trains"
    built = {m.inst.call for m in facts.models}
    if any(e.node in built and _runs_in(e, held) for e in facts.trace.of_kind("call")):
        return "the same statement builds the model"
    if any(isinstance(a, (cst.For, cst.While)) for a in source.ancestors(statement)) and any(isinstance(n, (cst.Break, cst.Continue)) for n in own_nodes(statement)):
        return "it may leave the loop around it"
    return ""


def _leaves(statement: cst.CSTNode) -> bool:
    return any(isinstance(n, (cst.Return, cst.Yield)) for n in own_nodes(statement))


def _gate(facts: Facts, source: Source, node: cst.CSTNode) -> cst.If | None:
    """The outermost ``if`` around a node, in its function, that asks whether a file exists."""
    found: cst.If | None = None
    for parent in source.ancestors(node):
        if isinstance(parent, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            break
        if isinstance(parent, cst.If) and ((found is not None and found is parent.orelse) or tests_existence(facts, parent.test)):
            found = parent
    return found


def _early_return(facts: Facts, source: Source, node: cst.CSTNode) -> cst.If | None:
    """An ``if exists: return`` before a node in its function."""
    function = source.function(node)
    if not isinstance(function, cst.FunctionDef):
        return None
    for other in own_nodes(function.body):
        if isinstance(other, cst.If) and source.span(other)[1] <= source.span(node)[0] and _leaves(other.body) and tests_existence(facts, other.test):
            return other
    return None


def _is_cache(facts: Facts, gate: cst.If, written: Access, source: Source) -> bool:
    """Whether what is written is what the test asks for, and is read again."""
    keys = path_keys(facts, written.event.source, written.path)
    asked = frozenset().union(*(path_keys(facts, source, p) for p in tests_existence(facts, gate.test)))
    return bool(keys & asked) or any(same_file(facts, r, written) for r in reads(facts) if not in_training(facts, r.event))


def _joined(blocks: list[First]) -> Iterator[First]:
    """Blocks of one suite with nothing but simple statements between them become one."""
    by_suite: dict[cst.CSTNode, list[First]] = {}
    for block in blocks:
        by_suite.setdefault(block.source.suite(block.statements[0]), []).append(block)
    for suite, members in by_suite.items():
        body = list(suite.body)  # type: ignore[attr-defined]
        members.sort(key=lambda b: body.index(b.statements[0]))
        run: list[First] = []
        for block in members:
            between = body[body.index(run[-1].statements[0]) + 1 : body.index(block.statements[0])] if run else []
            if run and (run[-1].why_not or block.why_not or run[-1].once != block.once or (block.once and between) or not all(isinstance(s, cst.SimpleStatementLine) for s in between)):
                yield _merge(run, body)
                run = []
            run.append(block)
        yield _merge(run, body)


def _merge(run: list[First], body: list[cst.CSTNode]) -> First:
    first, last = run[0].statements[0], run[-1].statements[0]
    statements = tuple(body[body.index(first) : body.index(last) + 1])
    return replace(run[0], statements=statements)  # type: ignore[arg-type]
