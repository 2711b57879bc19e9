"""Which code of imported modules the training run comes by: the rest of them is left as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from scaffold.roles.facts import Facts
from scaffold.roles.values import Class, Inst
from scaffold.source.edits import Edit, Guard, Helper, Import, Under
from scaffold.source.rewrite import Change
from scaffold.source.tree import Source

if TYPE_CHECKING:
    from scaffold.rules import Diagnostic

Span = tuple[int, int]


def within_reach(facts: Facts, changes: list[Change], diagnostics: list[Diagnostic]) -> tuple[list[Change], list[Diagnostic]]:
    """The changes and diagnostics that are not about functions nobody calls, or the own main block of an imported module."""
    spans = {s: _unreached(facts, s) for s in facts.project.sources if s is not facts.project.entry}
    spans = {s: found for s, found in spans.items() if found}
    if not spans:
        return changes, diagnostics
    kept = [c for c in changes if not _inside(c, spans.get(c.source, []))]
    touched = {c.source for c in kept if not isinstance(c, (Import, Helper))}
    kept = [c for c in kept if c.source in touched or c.source not in spans]
    lines = {s.name: [(s.line_at(a), s.line_at(b)) for a, b in found] for s, found in spans.items()}
    return kept, [d for d in diagnostics if not any(a <= d.line <= b for a, b in lines.get(d.path, []))]


def _unreached(facts: Facts, source: Source) -> list[Span]:
    trains = {f.node for e in facts.backwards for f in e.frame.stack()}
    called = {f.node for f in facts.trace.frames if f.call is not None} | set(facts.trace.aliases) | trains
    made = {i.cls.node for i in _instances(facts) if isinstance(i.cls, Class)}
    found: list[Span] = []
    for node in source.nodes:
        if isinstance(node, cst.If) and source.parents[node] is source.tree and "__name__" in source.code(node.test):
            found.append(source.span(node))
        elif isinstance(node, cst.FunctionDef) and node not in called:
            owner = next((a for a in source.ancestors(node) if isinstance(a, (cst.ClassDef, cst.FunctionDef))), None)
            if not (isinstance(owner, cst.ClassDef) and owner in made) and not (isinstance(owner, cst.FunctionDef) and owner in called):
                found.append(source.span(node))
    return found


def _instances(facts: Facts) -> list[Inst]:
    """The objects of project classes that were made, and those of their bases."""
    insts = [i for e in facts.trace.of_kind("call") for i in e.result.insts() if isinstance(i.cls, Class)]
    return [Inst(None, c) for i in dict.fromkeys(insts) for c in (i.cls.mro() if isinstance(i.cls, Class) else ()) if isinstance(c, Class)]


def _inside(change: Change, spans: list[Span]) -> bool:
    if isinstance(change, Edit):
        return any(a <= change.start < b or a < change.end <= b for a, b in spans)
    if isinstance(change, Guard):
        at = change.source.span(change.statement)[0]
    elif isinstance(change, Under):
        at = change.source.span(change.statements[0])[0]
    else:
        return False
    return any(a <= at < b for a, b in spans)
