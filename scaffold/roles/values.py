"""Abstract values: what an expression may hold, and where its data came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import libcst as cst

from scaffold.source.tree import Source


class Tag(NamedTuple):
    """One fact about where a value came from.

    ``kind`` is one of

    * how a rank's value of local data relates to the whole batch, with ``of`` the loader or draw it came from:
      ``rows`` (one entry a sample), ``mean``, ``sum``, ``count`` (samples in the batch), ``inverse`` (of a
      count), ``ratio`` (of two sums), ``mixed``; ``whole`` if the ranks' shares were gathered;
      ``shape``: the sizes along all axes, of which the first is a count;
    * ``mask``: a yes or no for each row; ``ragged``: of these rows each rank has another number; ``turned``: the samples lie along the
      second axis; ``pairs``: compares the samples of one batch with each other; ``curved``: the sum or mean at ``at`` was ``added`` to another kind,
      or entered a ``nonlinear`` computation, which does not commute with adding up the ranks' shares;
    * ``grad``: computed through the model ``of`` at call ``at``; ``param``: parameters of ``of``;
      ``through``: computed by the part ``of`` of such a model;
    * ``batches`` / ``samples``: the length of loader / dataset ``of``; ``length``: of anything that is no batch; ``steps``: such a length
      divided by a number at ``at``; ``config``: the setting ``of``;
    * ``offset``: counts through the range ``of``; ``cursor``: is moved on by the ``+=`` at ``at``; ``columns``: laid out as parallel streams by the view at ``at``, in the call ``of``;
    * ``clock``, ``entropy``: differs from process to process; ``listing``: how many files a folder held; ``draw``: drawn from a seeded generator at ``at``.
    """

    kind: str
    of: object = None
    at: cst.CSTNode | None = None


LOCAL = ("rows", "mean", "sum", "count", "inverse", "ratio", "mixed")


@dataclass(eq=False, slots=True, repr=False)
class Obj:
    """One abstract object; identity is the place that made it."""

    site: cst.CSTNode | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {getattr(self, 'name', '') or getattr(self, 'qualified', '')}>"


@dataclass(eq=False, slots=True, repr=False)
class Const(Obj):
    """A Python constant."""

    value: object = None


@dataclass(eq=False, slots=True, repr=False)
class Ext(Obj):
    """Something outside the project, by qualified name (``torch.nn.Linear``)."""

    name: str = ""


@dataclass(eq=False, slots=True, repr=False)
class Mod(Obj):
    """A module of the project."""

    source: Source | None = None


@dataclass(eq=False, slots=True, repr=False)
class Scope:
    """Variables of a module, class or function call."""

    source: Source
    node: cst.CSTNode
    parent: Scope | None = None
    vars: dict[str, Val] = field(default_factory=dict)
    globals: set[str] = field(default_factory=set)


@dataclass(eq=False, slots=True, repr=False)
class Func(Obj):
    """A function or method of the project; ``owner`` is the object it is bound to."""

    node: cst.FunctionDef | cst.Lambda | None = None
    scope: Scope | None = None
    owner: Obj | None = None
    cls: Class | None = None
    defaults: dict[str, Val] = field(default_factory=dict)


@dataclass(eq=False, slots=True, repr=False)
class Class(Obj):
    """A class of the project."""

    node: cst.ClassDef | None = None
    scope: Scope | None = None
    bases: tuple[Obj, ...] = ()

    @property
    def name(self) -> str:
        """The name in its ``class`` statement."""
        return self.node.name.value if self.node else "?"

    def mro(self) -> list[Obj]:
        """The class, then its bases, depth first."""
        out: list[Obj] = [self]
        for base in self.bases:
            if base is not self:
                out += base.mro() if isinstance(base, Class) else [base]
        return out

    def method(self, name: str, after: Class | None = None) -> Func | None:
        """The project function that ``name`` is, unbound; ``after`` starts behind that class in the MRO."""
        order = self.mro()
        if after is not None and after in order:
            order = order[order.index(after) + 1 :]
        for base in order:
            if isinstance(base, Class) and base.scope is not None:
                for obj in base.scope.vars.get(name, NOTHING).objs:
                    if isinstance(obj, Func):
                        return obj
        return None


@dataclass(eq=False, slots=True, repr=False)
class Inst(Obj):
    """An instance of a project class or the result of an external call."""

    cls: Class | str = ""
    attrs: dict[str, Val] = field(default_factory=dict)
    args: list[Val] = field(default_factory=list)
    kwargs: dict[str, Val] = field(default_factory=dict)
    call: cst.Call | None = None
    source: Source | None = None
    order: int = 0

    @property
    def qualified(self) -> str:
        """Class name: dotted for external classes, bare for the project's own."""
        return self.cls if isinstance(self.cls, str) else self.cls.name

    def bases(self) -> list[str]:
        """Qualified names of the external classes it is an instance of."""
        if isinstance(self.cls, str):
            return [self.cls]
        return [b.name for b in self.cls.mro() if isinstance(b, Ext)]


@dataclass(eq=False, slots=True, repr=False)
class Seq(Obj):
    """A list, tuple or set; ``items`` when its members are known, ``rest`` for what was added later."""

    items: list[Val] = field(default_factory=list)
    rest: Val | None = None
    kind: str = "list"


@dataclass(eq=False, slots=True, repr=False)
class Map(Obj):
    """A dictionary with constant keys; ``rest`` for the others."""

    items: dict[object, Val] = field(default_factory=dict)
    rest: Val | None = None


@dataclass(eq=False, slots=True, repr=False)
class Bound(Obj):
    """A method of an external object (``optimizer.step``)."""

    owner: Val | None = None
    name: str = ""


@dataclass(eq=False, slots=True, repr=False)
class Partial(Obj):
    """A callable with keyword arguments given beforehand (``functools.partial``)."""

    func: Obj | None = None
    kwargs: dict[str, Val] = field(default_factory=dict)


class Val(NamedTuple):
    """What an expression may be: possible objects, and tags on its data."""

    objs: tuple[Obj, ...] = ()
    tags: frozenset[Tag] = frozenset()

    def insts(self) -> list[Inst]:
        """The instances among the possible objects."""
        return [o for o in self.objs if isinstance(o, Inst)]

    def consts(self) -> list[object]:
        """The constant values among the possible objects."""
        return [o.value for o in self.objs if isinstance(o, Const)]

    def locals(self) -> frozenset[Tag]:
        """The tags that say the value differs between ranks because its data does."""
        return frozenset(t for t in self.tags if t.kind in LOCAL)

    def sources(self) -> frozenset[Tag]:
        """The tags that say which data the value comes from, of this rank alone or of all."""
        return frozenset(t for t in self.tags if t.kind == "whole" or t.kind in LOCAL)

    def of(self, kind: str) -> list[object]:
        """The objects that tags of ``kind`` point to."""
        return list(dict.fromkeys(t.of for t in self.tags if t.kind == kind))

    def tagged(self, *kinds: str) -> bool:
        """Whether any tag is of one of ``kinds``."""
        return any(t.kind in kinds for t in self.tags)


NOTHING = Val()
_MAX_OBJS = 24


def join(*values: Val | None) -> Val:
    """The value that is any of ``values``."""
    real = [v for v in values if v is not None and v is not NOTHING]
    if not real:
        return NOTHING
    if len(real) == 1:
        return real[0]
    first = real[0]
    if all(v is first for v in real):
        return first
    objs = tuple(dict.fromkeys(o for v in real for o in v.objs))[:_MAX_OBJS]
    tags = frozenset().union(*(v.tags for v in real))
    return Val(objs, tags)


def combined(*values: Val | None) -> Val:
    """Data computed from all of ``values``: their tags, none of their objects."""
    tags: frozenset[Tag] = frozenset()
    for value in values:
        if value is not None:
            tags |= value.tags
    return Val((), tags) if tags else NOTHING
