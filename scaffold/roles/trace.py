"""What happened while the script was followed: calls, loops, branches and stores, in order."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from scaffold.roles.values import NOTHING, Class, Inst, Scope, Val
from scaffold.source.tree import Source


@dataclass(eq=False, slots=True)
class Frame:
    """One activation of a function (or of a module body)."""

    node: cst.CSTNode
    source: Source
    scope: Scope
    call: cst.CSTNode | None = None
    caller: Frame | None = None
    owner: Inst | None = None
    cls: Class | None = None
    grad: bool = True
    arguments: dict[str, Val] = field(default_factory=dict)
    returns: list[Val] = field(default_factory=list)
    yields: list[Val] = field(default_factory=list)

    def stack(self) -> list[Frame]:
        """This frame and its callers, innermost first."""
        out: list[Frame] = []
        frame: Frame | None = self
        while frame is not None:
            out.append(frame)
            frame = frame.caller
        return out


@dataclass(eq=False, slots=True)
class Loop:
    """One ``for`` or ``while`` that is being run; ``value`` is what it iterates over."""

    node: cst.For | cst.While | cst.CompFor
    source: Source
    frame: Frame
    value: Val = NOTHING


@dataclass(eq=False, slots=True)
class Event:
    """Something that happened at ``node``.

    ``kind`` is ``call`` (``name``: qualified callee), ``forward`` (a module of the script was called), ``method`` (another of
    its methods was), ``iterate``, ``branch``, ``setattr``, ``setitem``, ``weighted`` (a differentiable ratio of two sums over the batch) ``draw`` (a
    comprehension drew a batch's indices) or ``enter`` (a project function was entered).
    """

    kind: str
    node: cst.CSTNode
    source: Source
    frame: Frame
    order: int
    loops: tuple[Loop, ...]
    branches: tuple[tuple[cst.CSTNode, bool], ...]
    grad: bool
    name: str = ""
    value: Val = NOTHING
    args: list[Val] = field(default_factory=list)
    kwargs: dict[str, Val] = field(default_factory=dict)
    result: Val = NOTHING

    def argument(self, position: int, keyword: str) -> Val | None:
        """Value of an argument by position or keyword."""
        if keyword in self.kwargs:
            return self.kwargs[keyword]
        return self.args[position] if position < len(self.args) else None


@dataclass(slots=True)
class Trace:
    """All events, and every value that each expression node was seen to have."""

    events: list[Event] = field(default_factory=list)
    values: dict[cst.CSTNode, Val] = field(default_factory=dict)
    frames: list[Frame] = field(default_factory=list)
    entered: set[cst.CSTNode] = field(default_factory=set)
    aliases: dict[cst.CSTNode, list[Frame]] = field(default_factory=dict)
    module_scopes: dict[Source, Scope] = field(default_factory=dict)
    parents: dict[Inst, list[tuple[Inst, str]]] = field(default_factory=dict)
    assigned: dict[Inst, list[tuple[cst.CSTNode, Frame]]] = field(default_factory=dict)
    called: set[Inst] = field(default_factory=set)
    read: set[tuple[Inst, str]] = field(default_factory=set)
    batch_sizes: set[object] = field(default_factory=set)
    complete: bool = True

    def named(self, *names: str) -> list[Event]:
        """Call events whose callee is one of ``names``."""
        wanted = set(names)
        return [e for e in self.events if e.kind == "call" and e.name in wanted]

    def of_kind(self, *kinds: str) -> list[Event]:
        """Events of some kinds."""
        return [e for e in self.events if e.kind in kinds]

    def value(self, node: cst.CSTNode) -> Val:
        """Every value seen at an expression."""
        return self.values.get(node, NOTHING)

    def root(self, inst: Inst) -> Inst:
        """The outermost module that holds ``inst`` as a part."""
        seen = {inst}
        while inst in self.parents:
            parent = self.parents[inst][0][0]
            if parent in seen:
                break
            seen.add(parent)
            inst = parent
        return inst
