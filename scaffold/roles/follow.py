"""Follow a script's values: an abstract interpreter over the LibCST tree.

Branches are both taken and joined, loop bodies are run until nothing new appears (at most twice), calls into the
project are entered with their actual arguments. Nothing of the script is executed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import libcst as cst

from scaffold.roles import kinds, pairs
from scaffold.roles.by_use import calls_making_modules
from scaffold.roles.trace import Event, Frame, Loop, Trace
from scaffold.roles.values import (
    NOTHING,
    Bound,
    Class,
    Const,
    Ext,
    Func,
    Inst,
    Map,
    Mod,
    Obj,
    Scope,
    Seq,
    Tag,
    Val,
    combined,
    join,
)  # fmt: skip
from scaffold.source.project import Project
from scaffold.source.tree import Source, dotted

BUDGET = 400_000
_UNREACHED = 80_000
"""Steps (expressions evaluated) for the run itself, and for the functions that it does not reach."""
DEPTH = 24
_EFFECTS = re.compile(r"\.backward\(|\.save\(|\.step\(|\bopen\(|makedirs|mkdir|\.dump\(")
_REPLAYED = 3000
_ORDERED = {"backward", "step", "zero_grad"}


@dataclass(frozen=True)
class Recording:
    """A finished call: its result, the events it made, and how many loops and branches were around it."""

    result: Val
    start: int
    end: int
    depth: int
    width: int


class Interpreter:
    """Runs a project abstractly from its entry script; :attr:`trace` holds what was seen.

    ``reduced`` names, for a loop, the variables that will be made the same on all ranks right behind it;
    ``made_before`` are draws that are known to make the data set, not its batches; with
    ``global_batch`` the script's batch size is that of all ranks together; ``changed`` names expressions that will be wrapped, each with what it becomes: ``whole`` (the ranks' shares put together) or ``mean``.
    """

    def __init__(
        self,
        project: Project,
        reduced: Mapping[cst.CSTNode, Iterable[str]] | None = None,
        changed: Mapping[cst.CSTNode, str] | None = None,
        made_before: Iterable[cst.CSTNode] = (),
        global_batch: bool = False,
    ) -> None:
        from scaffold.roles import calls

        self.project = project
        self.reduced = reduced or {}
        self.changed = changed or {}
        self.made_before = frozenset(made_before)
        self.global_batch = global_batch
        self.trace = Trace()
        self.makes_module: set[cst.CSTNode] = set()
        self.frame: Frame = None  # type: ignore[assignment]
        self.loops: list[Loop] = []
        self.branches: list[tuple[cst.CSTNode, bool]] = []
        self.no_grad = 0
        self.steps = 0
        self.limit = BUDGET
        self.inside_module = 0
        self.consts: dict[tuple[cst.CSTNode | None, object], Const] = {}
        self.exts: dict[str, Ext] = {}
        self.sites: dict[tuple[object, ...], Obj] = {}
        self.memo: dict[tuple[object, ...], Recording] = {}
        self.running: list[cst.CSTNode] = []
        self._fixed: set[tuple[cst.CSTNode, str]] = set()
        self.unroll: list[int] = []
        self.cursors = 0
        self._call = calls.call
        self._attribute = calls.attribute
        self._expressions: dict[type, Callable[[Any], Val]] = {
            cst.Name: self.name,
            cst.Attribute: lambda n: self._attribute(self, self.eval(n.value), n.attr.value, n),
            cst.Call: lambda n: self._call(self, n),
            cst.SimpleString: lambda n: self.const(n, n.evaluated_value),
            cst.ConcatenatedString: lambda n: (
                combined(self.eval(n.left), self.eval(n.right)) if n.evaluated_value is None else self.const(n, n.evaluated_value)
            ),
            cst.FormattedString: self.formatted,
            cst.Integer: lambda n: self.const(n, n.evaluated_value),
            cst.Float: lambda n: self.const(n, n.evaluated_value),
            cst.Tuple: self.sequence,
            cst.List: self.sequence,
            cst.Set: self.sequence,
            cst.Dict: self.dictionary,
            cst.BinaryOperation: self.binary,
            cst.UnaryOperation: self.unary,
            cst.BooleanOperation: lambda n: join(self.eval(n.left), self.eval(n.right)),
            cst.Comparison: self.comparison,
            cst.IfExp: self.conditional,
            cst.Subscript: self.subscript,
            cst.Lambda: self.closure,
            cst.ListComp: self.comprehension,
            cst.SetComp: self.comprehension,
            cst.GeneratorExp: self.comprehension,
            cst.DictComp: self.dict_comprehension,
            cst.NamedExpr: self.walrus,
            cst.Await: lambda n: self.eval(n.expression),
            cst.Yield: self.yielded,
            cst.StarredElement: lambda n: self.eval(n.value),
        }

    # ---- entry -------------------------------------------------------------------------------------------------

    def run(self) -> Trace:
        """Follow the entry script as ``__main__``, then every function that nothing reached."""
        self.load(self.project.entry, "__main__")
        self.trace.complete = self.steps < self.limit
        self.limit = min(self.limit, self.steps + _UNREACHED)
        for source in self.project.sources:
            if source in self.trace.module_scopes:
                self._unreached(source)
        return self.trace

    def load(self, source: Source, name: str) -> Scope:
        """Run a module body once and return its variables."""
        scope = self.trace.module_scopes.get(source)
        if scope is not None:
            return scope
        self.makes_module |= calls_making_modules(source)
        scope = Scope(source, source.tree)
        scope.vars["__name__"] = self.const(None, name)
        self.trace.module_scopes[source] = scope
        outer = (self.frame, self.loops, self.branches, self.no_grad)
        caller = self.frame
        self.frame = Frame(source.tree, source, scope, None, caller)
        self.loops, self.branches, self.no_grad = [], [], 0
        self.trace.frames.append(self.frame)
        self.block(source.tree.body)
        self.frame, self.loops, self.branches, self.no_grad = outer
        return scope

    def _unreached(self, source: Source) -> None:
        if source is not self.project.entry and not _EFFECTS.search(source.text):
            return
        scope = self.trace.module_scopes[source]
        self.frame = Frame(source.tree, source, scope)
        for value in list(scope.vars.values()):
            for obj in value.objs:
                if isinstance(obj, Func) and obj.node not in self.trace.entered and obj.scope is scope:
                    self.enter(obj, [], {}, None)
                elif isinstance(obj, Class) and obj.scope is not None and obj.scope.source is source:
                    self._unreached_methods(obj)

    def _unreached_methods(self, cls: Class) -> None:
        scope = cls.scope
        if scope is None or (is_module(Inst(None, cls)) and not _EFFECTS.search(scope.source.text)):
            return
        methods = [o for v in list(scope.vars.values()) for o in v.objs if isinstance(o, Func) and o.cls is cls]
        for method in methods:
            if method.node not in self.trace.entered and isinstance(method.node, cst.FunctionDef):
                owner = next((s for s in self.sites.values() if isinstance(s, Inst) and s.cls is cls), None)
                bound = Func(method.site, method.node, method.scope, owner or Inst(None, cls), cls, method.defaults)
                self.enter(bound, [], {}, None)

    # ---- helpers -----------------------------------------------------------------------------------------------

    def const(self, site: cst.CSTNode | None, value: object) -> Val:
        """The constant ``value`` written at ``site``."""
        key = (site, (type(value), value))
        found = self.consts.get(key)
        if found is None:
            found = self.consts[key] = Const(site, value)
        return Val((found,))

    def ext(self, name: str) -> Val:
        """The external thing called ``name``."""
        from scaffold.roles.api import ALIASES

        name = ALIASES.get(name, name)
        found = self.exts.get(name)
        if found is None:
            found = self.exts[name] = Ext(None, name)
        return Val((found,))

    def path(self) -> tuple[object, ...]:
        """The calls that led here, innermost first: what tells apart two objects made at one place."""
        return (*self.unroll, *(f.call for f in self.frame.stack()[:6]))

    def at_site(self, node: cst.CSTNode, kind: object, make: Callable[[], Obj]) -> Obj:
        """The object made at ``node`` under the present calls; the same one on every visit."""
        key = (node, kind, self.path())
        found = self.sites.get(key)
        if found is None:
            found = self.sites[key] = make()
        return found

    def event(self, kind: str, node: cst.CSTNode, **facts: Any) -> Event:
        """Record that something happened."""
        event = Event(
            kind, node, self.frame.source, self.frame, len(self.trace.events), tuple(self.loops), tuple(self.branches),
            not self.no_grad, **facts,
        )  # fmt: skip
        self.trace.events.append(event)
        return event

    def repeats(self) -> bool:
        """Whether this code is run again and again, by a statement."""
        return any(not isinstance(x.node, cst.CompFor) for x in self.loops)

    def is_batch_size(self, value: Val) -> bool:
        """Whether a uniform value is one that sets the batch size of a loader or a draw, and so says how many samples a rank gets."""
        if self.global_batch:
            return False
        sizes = self.trace.batch_sizes
        return bool(sizes and value.objs) and (any(o in sizes for o in value.objs) or any(t in sizes for t in value.tags))

    # ---- statements --------------------------------------------------------------------------------------------

    def block(self, statements: Sequence[cst.CSTNode]) -> None:
        """Run statements in order."""
        for statement in statements:
            if self.steps > self.limit:
                return
            self.statement(statement)

    def body(self, suite: cst.BaseSuite) -> None:
        """Run an indented block or a one-line suite."""
        self.block(suite.body)

    def statement(self, node: cst.CSTNode) -> None:
        """Run one statement."""
        if isinstance(node, cst.SimpleStatementLine):
            for small in node.body:
                self.small(small)
        elif isinstance(node, cst.If):
            self.if_(node)
        elif isinstance(node, (cst.For, cst.While)):
            self.loop(node)
        elif isinstance(node, cst.FunctionDef):
            self.define(node)
        elif isinstance(node, cst.ClassDef):
            self.define_class(node)
        elif isinstance(node, cst.With):
            self.with_(node)
        elif isinstance(node, (cst.Try, cst.TryStar)):
            self.try_(node)
        elif isinstance(node, cst.Match):
            self.eval(node.subject)
            self.alternatives([lambda c=c: self.body(c.body) for c in node.cases])  # type: ignore[misc]
        elif isinstance(node, cst.BaseSmallStatement):
            self.small(node)

    def small(self, node: cst.BaseSmallStatement) -> None:
        """Run one simple statement."""
        if isinstance(node, cst.Expr):
            self.eval(node.value)
        elif isinstance(node, cst.Assign):
            value = self.eval(node.value)
            for target in node.targets:
                self.assign(target.target, value, node)
        elif isinstance(node, cst.AnnAssign):
            if node.value is not None:
                self.assign(node.target, self.eval(node.value), node)
        elif isinstance(node, cst.AugAssign):
            self.augment(node)
        elif isinstance(node, cst.Return):
            self.frame.returns.append(self.eval(node.value) if node.value else NOTHING)
        elif isinstance(node, (cst.Import, cst.ImportFrom)):
            self.import_(node)
        elif isinstance(node, cst.Global):
            self.frame.scope.globals.update(item.name.value for item in node.names)
        elif isinstance(node, cst.Raise) and node.exc is not None:
            self.eval(node.exc)
        elif isinstance(node, cst.Assert):
            self.eval(node.test)
        elif isinstance(node, cst.Del):
            return

    def alternatives(self, runs: Iterable[Callable[[], None]]) -> None:
        """Run each alternative from the same variables and join what they leave."""
        scope = self.frame.scope
        before = dict(scope.vars)
        ends = []
        for run in runs:
            scope.vars = dict(before)
            run()
            ends.append(scope.vars)
        merged: dict[str, Val] = {}
        for end in ends or [before]:
            for name, value in end.items():
                merged[name] = value if name not in merged else join(merged[name], value)
        scope.vars = merged

    def if_(self, node: cst.If) -> None:
        """Run both branches, or the one that a constant of this call decides."""
        test = self.eval(node.test)
        self.event("branch", node, value=test)
        decided = self.decide(node.test)

        def then() -> None:
            self.branches.append((node, True))
            self.body(node.body)
            self.branches.pop()

        def otherwise() -> None:
            self.branches.append((node, False))
            if isinstance(node.orelse, cst.If):
                self.if_(node.orelse)
            elif isinstance(node.orelse, cst.Else):
                self.body(node.orelse.body)
            self.branches.pop()

        if decided is True:
            then()
        elif decided is False:
            otherwise()
        else:
            self.alternatives([then, otherwise])

    def decide(self, test: cst.BaseExpression) -> bool | None:
        """The outcome of a test that this very call fixes (``__name__``, a literal argument, an unrolled loop), else None."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            inner = self.decide(test.expression)
            return None if inner is None else not inner
        if isinstance(test, cst.BooleanOperation):
            left, right = self.decide(test.left), self.decide(test.right)
            if isinstance(test.operator, cst.And):
                return False if False in (left, right) else (True if left and right else None)
            return True if True in (left, right) else (False if left is False and right is False else None)
        if isinstance(test, cst.Name):
            if not self.fixed(test):
                return None
            value = self.trace_eval(test)
            if len(value.objs) == 1:
                if isinstance(value.objs[0], Const):
                    return bool(value.objs[0].value)
                return True if isinstance(value.objs[0], (Inst, Func)) else None
            return None
        if isinstance(test, cst.Attribute) and self.inside_module and dotted(test.value) == "self":
            value = self.trace_eval(test)
            known = [o.value for o in value.objs if isinstance(o, Const)]
            return bool(known[0]) if len(value.objs) == 1 == len(known) and isinstance(known[0], (bool, type(None))) else None
        if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
            return self._decide_comparison(test)
        return None

    def _decide_comparison(self, test: cst.Comparison) -> bool | None:
        target = test.comparisons[0]
        if not (isinstance(test.left, cst.Name) and (self.fixed(test.left) or test.left.value == "__name__")):
            return None
        left, right = self.trace_eval(test.left), self.trace_eval(target.comparator)
        if len(left.objs) != 1 or len(right.objs) != 1 or not isinstance(right.objs[0], Const):
            return None
        subject, other = left.objs[0], right.objs[0].value
        if isinstance(target.operator, (cst.Is, cst.IsNot)) and other is None:
            if not isinstance(subject, (Const, Inst, Func, Seq, Map)):
                return None
            is_none = isinstance(subject, Const) and subject.value is None
            return is_none == isinstance(target.operator, cst.Is)
        if isinstance(subject, Const) and isinstance(target.operator, (cst.Equal, cst.NotEqual)):
            return (subject.value == other) == isinstance(target.operator, cst.Equal)
        return None

    def fixed(self, name: cst.Name) -> bool:
        """Whether a name is a parameter or an unrolled loop variable of this call, so that its constant can be trusted."""
        return (self.frame.scope.node, name.value) in self._fixed

    def trace_eval(self, node: cst.BaseExpression) -> Val:
        """Evaluate without recording events."""
        count = len(self.trace.events)
        value = self.eval(node)
        del self.trace.events[count:]
        return value

    def loop(self, node: cst.For | cst.While) -> None:
        """Run a loop body, again if the first pass changed what the second would see."""
        if isinstance(node, cst.For):
            value = self.eval(node.iter)
            members = self._unrolled(node, value)
            if members:
                self._run_unrolled(node, value, members)
                return
        else:
            value = self.eval(node.test)
        loop = Loop(node, self.frame.source, self.frame, value)
        scope = self.frame.scope
        self.loops.append(loop)
        self.event("iterate" if isinstance(node, cst.For) else "branch", node, value=value)
        for attempt in range(2):
            before, cursors = dict(scope.vars), self.cursors
            if isinstance(node, cst.For):
                self.assign(node.target, self.element(value, node), None)
            self.body(node.body)
            changed = cursors != self.cursors or any(before.get(k) != v for k, v in scope.vars.items() if k in before)
            scope.vars = {**{k: join(v, scope.vars.get(k)) for k, v in before.items()}, **{k: v for k, v in scope.vars.items() if k not in before}}
            if isinstance(node, cst.While):
                self.eval(node.test)
            if not changed or attempt or len(self.loops) > 5:
                break
        self.loops.pop()
        for name in self.reduced.get(node, ()):
            self._make_global(name)
        if node.orelse is not None:
            self.body(node.orelse.body)

    def _make_global(self, name: str) -> None:
        """A variable or ``self`` attribute that will be all-reduced here: the same on every rank from now on."""
        head, _, attr = name.partition(".")
        scope = self._scope_of(head)
        if not attr:
            if head in scope.vars:
                value = scope.vars[head]
                scope.vars[head] = Val(value.objs, kinds.without_local(value).tags)
            return
        for inst in scope.vars.get(head, NOTHING).insts():
            if attr in inst.attrs:
                inst.attrs[attr] = Val(inst.attrs[attr].objs, kinds.without_local(inst.attrs[attr]).tags)

    def _unrolled(self, node: cst.For, value: Val) -> list[Val]:
        if len(value.objs) != 1 or not isinstance(value.objs[0], Seq) or value.objs[0].rest is not None:
            return []
        items = value.objs[0].items
        literal = isinstance(node.target, cst.Name) and all(
            len(i.objs) == 1 and isinstance(i.objs[0], Const) and isinstance(i.objs[0].value, (str, bool)) for i in items
        )
        objects = 0 < len(items) <= 4 and any(i.insts() for i in items)
        return items if (literal and len(items) <= 4) or objects else []

    def _run_unrolled(self, node: cst.For, value: Val, members: list[Val]) -> None:
        self.loops.append(Loop(node, self.frame.source, self.frame, value))
        self.event("iterate", node, value=value)
        name = node.target.value if isinstance(node.target, cst.Name) else ""
        key = (self.frame.scope.node, name)
        fresh = name and key not in self._fixed
        if fresh:
            self._fixed.add(key)
        for index, member in enumerate(members):
            self.unroll.append(index)
            self.assign(node.target, member, None)
            self.body(node.body)
            self.unroll.pop()
        if fresh:
            self._fixed.discard(key)
        self.loops.pop()
        if node.orelse is not None:
            self.body(node.orelse.body)

    def with_(self, node: cst.With) -> None:
        """Run a ``with`` body; gradient modes are followed."""
        entered = 0
        for item in node.items:
            value = self.eval(item.item)
            if any(isinstance(o, Inst) and o.qualified in _NO_GRAD for o in value.objs) and not _mode_is_on(value):
                entered += 1
            if item.asname is not None:
                self.assign(item.asname.name, value, None)
        self.no_grad += entered
        self.body(node.body)
        self.no_grad -= entered

    def try_(self, node: cst.Try | cst.TryStar) -> None:
        """Run the body, then each handler from a joined state."""
        self.body(node.body)

        def handler(h: cst.ExceptHandler | cst.ExceptStarHandler) -> Callable[[], None]:
            def run() -> None:
                self.branches.append((h, True))
                self.body(h.body)
                self.branches.pop()

            return run

        self.alternatives([lambda: None, *(handler(h) for h in node.handlers)])
        if node.orelse is not None:
            self.body(node.orelse.body)
        if node.finalbody is not None:
            self.body(node.finalbody.body)

    def import_(self, node: cst.Import | cst.ImportFrom) -> None:
        """Bind imported names to local modules or external names."""
        scope = self.frame.scope
        if isinstance(node, cst.Import):
            for alias in node.names:
                name = dotted(alias.name) or ""
                if alias.asname is not None:
                    scope.vars[alias.evaluated_alias or name] = self.import_module(name)
                else:
                    head = name.split(".")[0]
                    self.import_module(name)
                    scope.vars[head] = self.import_module(head)
            return
        module = self.project.absolute(self.frame.source, node)
        if isinstance(node.names, cst.ImportStar):
            source = self.project.module(module)
            if source is not None:
                scope.vars.update({k: v for k, v in self.load(source, module).vars.items() if not k.startswith("_")})
            elif module.startswith("torch"):
                for name in _STAR_NAMES.get(module, ()):
                    scope.vars.setdefault(name, self.ext(f"{module}.{name}"))
            return
        for alias in node.names:
            name = dotted(alias.name) or ""
            scope.vars[alias.evaluated_alias or name] = self.import_name(module, name)

    def import_module(self, name: str) -> Val:
        """The value of ``import name``."""
        source = self.project.module(name)
        if source is None:
            return self.ext(name)
        self.load(source, name)
        return Val((self.at_module(source),))

    def at_module(self, source: Source) -> Obj:
        """The one object that stands for a local module."""
        key = ("module", source)
        return self.sites.setdefault(key, Mod(source.tree, source))

    def import_name(self, module: str, name: str) -> Val:
        """The value of ``from module import name``."""
        source = self.project.module(module)
        if source is not None:
            found = self.load(source, module).vars.get(name)
            if found is not None:
                return found
        full = f"{module}.{name}" if module else name
        if self.project.module(full) is not None:
            return self.import_module(full)
        return NOTHING if source is not None else self.ext(full)

    # ---- definitions -------------------------------------------------------------------------------------------

    def define(self, node: cst.FunctionDef) -> None:
        """Bind a function; its defaults are evaluated now."""
        func = self.function(node, node.params)
        self.assign(node.name, Val((func,)), None)
        for decorator in node.decorators:
            self.eval(decorator.decorator)

    def function(self, node: cst.FunctionDef | cst.Lambda, params: cst.Parameters) -> Func:
        """The function object for a definition at this place."""
        scope = self.frame.scope
        func = self.at_site(node, id(scope), lambda: Func(node, node, scope))
        assert isinstance(func, Func)
        for param in (*params.posonly_params, *params.params, *params.kwonly_params):
            if param.default is not None:
                func.defaults[param.name.value] = self.eval(param.default)
        return func

    def closure(self, node: cst.Lambda) -> Val:
        """A lambda."""
        return Val((self.function(node, node.params),))

    def define_class(self, node: cst.ClassDef) -> None:
        """Bind a class and run its body in a scope of its own."""
        outer = self.frame.scope
        bases = tuple(o for b in node.bases for o in self.eval(b.value).objs if isinstance(o, (Class, Ext)))
        cls = self.at_site(node, "class", lambda: Class(node, node, None, bases))
        assert isinstance(cls, Class)
        cls.bases = bases
        cls.scope = Scope(self.frame.source, node, outer)
        self.frame.scope = cls.scope
        self.body(node.body)
        self.frame.scope = outer
        for value in cls.scope.vars.values():
            for obj in value.objs:
                if isinstance(obj, Func) and isinstance(obj.node, cst.FunctionDef) and obj.scope is cls.scope:
                    obj.cls = cls
        for decorator in node.decorators:
            self.eval(decorator.decorator)
        self.assign(node.name, Val((cls,)), None)

    # ---- assignment --------------------------------------------------------------------------------------------

    def assign(self, target: cst.CSTNode, value: Val, statement: cst.CSTNode | None) -> None:
        """Store a value in a name, attribute, item or pattern of them."""
        if isinstance(target, cst.Name):
            self.trace.values[target] = join(self.trace.values.get(target), value)
            self._scope_of(target.value).vars[target.value] = value
            if statement is not None:
                for inst in value.insts():
                    self.trace.assigned.setdefault(inst, []).append((target, self.frame))
        elif isinstance(target, (cst.Tuple, cst.List)):
            for index, element in enumerate(target.elements):
                part = self.item(value, index)
                if isinstance(element, cst.StarredElement):
                    part = self.element(value, element)
                self.assign(element.value, part, statement)
        elif isinstance(target, cst.Attribute):
            self.trace.values[target] = join(self.trace.values.get(target), value)
            owner = self.eval(target.value)
            self._set_attribute(owner, target.attr.value, value, target)
        elif isinstance(target, cst.Subscript):
            self._set_item(target, value)
        elif isinstance(target, cst.StarredElement):
            self.assign(target.value, value, statement)

    def _scope_of(self, name: str) -> Scope:
        scope = self.frame.scope
        if name in scope.globals:
            return self.trace.module_scopes.get(scope.source, scope)
        return scope

    def _set_attribute(self, owner: Val, name: str, value: Val, target: cst.Attribute) -> None:
        self.event("setattr", target, name=name, value=owner, args=[value])
        for obj in owner.objs:
            if isinstance(obj, Inst):
                obj.attrs[name] = value if name not in obj.attrs else join(obj.attrs[name], value)
                for inst in value.insts():
                    self.trace.assigned.setdefault(inst, []).append((target, self.frame))
                    if is_module(inst) and is_module(obj) and inst is not obj:
                        self.adopt(obj, inst, name)
            elif isinstance(obj, Mod) and obj.source is not None:
                self.load(obj.source, "").vars[name] = value

    def adopt(self, parent: Inst, child: Inst, name: str) -> None:
        """Record that one module is a part of another."""
        links = self.trace.parents.setdefault(child, [])
        if (parent, name) not in links and self.trace.root(parent) is not child:
            links.append((parent, name))

    def _set_item(self, target: cst.Subscript, value: Val) -> None:
        owner = self.eval(target.value)
        index = self._index(target)
        self.event("setitem", target, value=owner, args=[value])
        for obj in owner.objs:
            if isinstance(obj, Map):
                keys = index.consts()
                if len(keys) == 1 and _hashable(keys[0]):
                    obj.items[keys[0]] = join(obj.items.get(keys[0]), value)
                else:
                    obj.rest = join(obj.rest, value)
            elif isinstance(obj, Seq):
                obj.rest = join(obj.rest, value)
            elif isinstance(obj, Inst):
                obj.attrs["[]"] = join(obj.attrs.get("[]"), value)
        if not owner.objs and value.locals() and not owner.tagged("rows") and isinstance(target.value, cst.Name):
            name = target.value.value
            scope = self._scope_of(name)
            scope.vars[name] = Val((), scope.vars.get(name, NOTHING).tags | value.tags)

    def augment(self, node: cst.AugAssign) -> None:
        """``x += value``."""
        current, value = self.eval(node.target), self.eval(node.value)
        operator = type(node.operator).__name__.removesuffix("Assign")
        for obj in current.objs:
            if isinstance(obj, Seq):
                obj.rest = join(obj.rest, self.element(value, node))
                return
        result = self.combine(operator, self.arithmetic(operator, current, value), (node.target, current), (node.value, value))
        if not current.locals() and not value.locals():
            result = Val((), result.tags)
            if operator == "Add" and self.repeats() and not self.inside_module:
                result = Val((), result.tags | {Tag("cursor", self._cursor(node), node)})
        self.assign(node.target, result, None)

    def _cursor(self, node: cst.AugAssign) -> Inst:
        """What counts on through data, of one object if it is an object's own."""
        owner = self.frame.owner
        known = len(self.sites)
        made = self.at_site(node, ("cursor", owner), lambda: Inst(node, "cursor", {}, [], {}, None, self.frame.source))
        self.cursors += len(self.sites) - known
        assert isinstance(made, Inst)
        return made

    # ---- expressions -------------------------------------------------------------------------------------------

    def eval(self, node: cst.CSTNode) -> Val:
        """The abstract value of an expression, also recorded for the rules."""
        self.steps += 1
        handler = self._expressions.get(type(node))
        if handler is None or self.steps > self.limit:
            return NOTHING
        value = handler(node)
        if node in self.changed:
            value = kinds.changed(value, self.changed[node])
        known = self.trace.values.get(node)
        self.trace.values[node] = value if known is None else join(known, value)
        return value

    def name(self, node: cst.Name) -> Val:
        """Look a variable up: call, enclosing functions, module, builtins."""
        scope: Scope | None = self.frame.scope
        first = True
        while scope is not None:
            if node.value in scope.vars and (first or not isinstance(scope.node, cst.ClassDef)):
                return scope.vars[node.value]
            first, scope = False, scope.parent
        constant = {"None": None, "True": True, "False": False}
        if node.value in constant:
            return self.const(node, constant[node.value])
        return self.ext(node.value)

    def formatted(self, node: cst.FormattedString) -> Val:
        """An f-string carries the tags of what is in it."""
        parts = []
        for part in node.parts:
            if isinstance(part, cst.FormattedStringExpression):
                parts.append(self.eval(part.expression))
                for spec in part.format_spec or ():
                    if isinstance(spec, cst.FormattedStringExpression):
                        parts.append(self.eval(spec.expression))
        return combined(*parts)

    def sequence(self, node: cst.Tuple | cst.List | cst.Set) -> Val:
        """A list, tuple or set display."""
        kind = type(node).__name__.lower()
        obj = self.at_site(node, kind, lambda: Seq(node, [], None, kind))
        assert isinstance(obj, Seq)
        items: list[Val] = []
        for element in node.elements:
            if isinstance(element, cst.StarredElement):
                obj.rest = join(obj.rest, self.element(self.eval(element.value), element))
            else:
                items.append(self.eval(element.value))
        obj.items = items if len(obj.items) != len(items) else [join(a, b) for a, b in zip(obj.items, items, strict=True)]
        return Val((obj,), combined(*items).tags | self._unordered(node))

    def dictionary(self, node: cst.Dict) -> Val:
        """A dictionary display; ``**other`` is merged."""
        obj = self.at_site(node, "dict", lambda: Map(node))
        assert isinstance(obj, Map)
        for element in node.elements:
            value = self.eval(element.value)
            if isinstance(element, cst.StarredDictElement):
                for other in value.objs:
                    if isinstance(other, Map):
                        obj.items.update(other.items)
                        obj.rest = join(obj.rest, other.rest)
            elif isinstance(element, cst.DictElement):
                keys = self.eval(element.key).consts()
                if len(keys) == 1 and _hashable(keys[0]):
                    obj.items[keys[0]] = join(obj.items.get(keys[0]), value)
                else:
                    obj.rest = join(obj.rest, value)
        return Val((obj,), combined(*obj.items.values(), obj.rest).tags)

    def binary(self, node: cst.BinaryOperation) -> Val:
        """Arithmetic; list and string concatenation keep their members."""
        left, right = self.eval(node.left), self.eval(node.right)
        result = self.arithmetic(type(node.operator).__name__, left, right)
        if isinstance(node.operator, cst.MatrixMultiply):
            return pairs.product(node, left, right, result)
        result = pairs.spread(node, [node.left, node.right], [left, right], result)
        if isinstance(node.operator, (cst.Divide, cst.FloorDivide)) and left.tagged("length") and not result.locals():
            result = Val((), frozenset(t for t in result.tags if t.kind not in {"length", "samples"}) | {Tag("steps", None, node)})
        return self.combine(type(node.operator).__name__, result, (node.left, left), (node.right, right))

    def combine(self, operator: str, result: Val, left: tuple[cst.CSTNode, Val], right: tuple[cst.CSTNode, Val]) -> Val:
        """The result of arithmetic: a differentiable ratio of two sums is a mean, if its divisor is made the ranks' mean."""
        if kinds.only(result) == "rows" and any(kinds.only(v) == "mixed" and v.tagged("grad") for _, v in (left, right)):
            return kinds.retag(result, "mixed")
        if kinds.only(result) == "ratio" and left[1].tagged("grad"):
            if not right[1].tagged("grad"):
                self.event("weighted", right[0], value=right[1])
                return kinds.retag(result, "mean")
            result = kinds.retag(result, "mixed")
        return self.curve(result, left, right, how="added" if operator in {"Add", "Subtract"} else "nonlinear")

    def curve(self, result: Val, *operands: tuple[cst.CSTNode, Val], how: str = "nonlinear") -> Val:
        """Note which sums and means over the batch enter a computation that does not commute with adding up the ranks' shares."""
        inputs = [v for _, v in operands]
        if self.no_grad or not (any(v.tagged("grad") for v in inputs) or not self.inside_module):
            return result
        found = [kinds.only(v) for v in inputs]
        rows = "rows" in found and len(found) == 2
        if rows or kinds.only(result) == "mixed" and "mixed" not in found:
            tags = {Tag("curved", "nonlinear" if rows else how, n) for (n, _), k in zip(operands, found, strict=True) if k in {"mean", "sum"}}
            return Val(result.objs, result.tags | tags) if tags else result
        return result

    def arithmetic(self, operator: str, left: Val, right: Val) -> Val:
        """Result of an operator on two values."""
        if operator == "Add" and any(isinstance(o, Seq) for o in left.objs):
            return join(left, right)
        result = kinds.binary(operator, left, right, self.is_batch_size(left), self.is_batch_size(right))
        if operator == "Multiply" and not result.locals():
            for steps, size in ((left, right), (right, left)):
                if steps.tagged("step") and self.is_batch_size(size):
                    return Val((), result.tags | {Tag("count", t.of, t.at) for t in steps.tags if t.kind == "step"})
        if operator == "BitOr" and any(isinstance(o, Map) for o in left.objs):
            return join(left, right)
        return result

    def unary(self, node: cst.UnaryOperation) -> Val:
        """Negation keeps kinds; ``not`` is a decision."""
        value = self.eval(node.expression)
        if isinstance(node.operator, cst.Minus) and value.consts():
            first = value.consts()[0]
            return self.const(node, -first) if isinstance(first, (int, float)) else NOTHING
        return Val((), value.tags)

    def comparison(self, node: cst.Comparison) -> Val:
        """Comparing rows gives rows; comparing numbers of one rank gives a decision of that rank."""
        values = [self.eval(node.left), *(self.eval(c.comparator) for c in node.comparisons)]
        decided = self.decide(node)
        if decided is not None:
            return self.const(node, decided)
        value = kinds.without_grad(combined(*values))
        if all(isinstance(c.operator, (cst.Is, cst.IsNot)) for c in node.comparisons):
            return NOTHING
        kind = kinds.only(value)
        if kind == "rows" or "rows" in map(kinds.only, values):
            return kinds.mask(kinds.retag(value, "rows"), node)
        return value if kind is None else kinds.retag(value, "mixed")

    def conditional(self, node: cst.IfExp) -> Val:
        """Both arms, or the one that this call decides."""
        decided = self.decide(node.test)
        test = self.eval(node.test)
        if decided is not None:
            return self.eval(node.body if decided else node.orelse)
        both = join(self.eval(node.body), self.eval(node.orelse))
        return Val(both.objs, both.tags | kinds.retag(test, "mixed").tags) if test.locals() else both

    def _index(self, node: cst.Subscript) -> Val:
        parts = []
        for position, element in enumerate(node.slice):
            if isinstance(element.slice, cst.Index):
                parts.append(self.eval(element.slice.value))
            elif isinstance(element.slice, cst.Slice):
                for bound in (element.slice.lower, element.slice.upper, element.slice.step):
                    if bound is not None:
                        parts.append(_as_rows(self.eval(bound), slices=not position))
        return parts[0] if len(parts) == 1 else combined(*parts)

    def subscript(self, node: cst.Subscript) -> Val:
        """Indexing containers by constants; data indexed by data is data."""
        owner, index = self.eval(node.value), self._index(node)
        sliced = any(isinstance(e.slice, cst.Slice) for e in node.slice)
        if len(node.slice) == 1 and not sliced:
            keys = index.consts()
            whole = node.value.func if isinstance(node.value, cst.Call) and not node.value.args else node.value
            if len(keys) == 1 and isinstance(whole, cst.Attribute) and whole.attr.value in {"shape", "size"}:
                whole_value = self.eval(whole.value)
                size = kinds.tensor_method("size", whole_value, keys[0], True)
                return size if keys[0] != 0 or whole_value.locals() else Val((), size.tags | {Tag("length", None, node)})
            return join(*(self._member(owner, k) for k in keys)) if keys else self._any_member(owner, index, node)
        if len(node.slice) == 1 and index.tagged("rows") and any(isinstance(o, Seq) or isinstance(o, Inst) and not is_module(o) for o in owner.objs):
            return Val((self._cut(node, owner, index),), owner.tags | index.tags)
        kept = tuple(o for o in owner.objs if isinstance(o, (Seq, Inst)))
        return Val(kept if len(node.slice) == 1 else (), owner.tags | index.tags)

    def _cut(self, node: cst.Subscript, owner: Val, index: Val) -> Seq:
        """The rows of a list that a slice selects."""
        made = self.at_site(node, "slice", lambda: Seq(node))
        assert isinstance(made, Seq)
        rows = frozenset(t for t in index.tags if t.kind == "rows")
        made.rest = self._tagged(node, self.element(owner, node), rows)
        return made

    def _tagged(self, node: cst.CSTNode, value: Val, tags: frozenset[Tag]) -> Val:
        """``value`` and the members of the tuples in it, with more tags."""
        objs: list[Obj] = []
        for obj in value.objs:
            if isinstance(obj, Seq):
                made = self.at_site(node, ("tagged", obj), lambda o=obj: Seq(node, [], None, o.kind))  # type: ignore[misc]
                assert isinstance(made, Seq)
                made.items = [self._tagged(node, i, tags) for i in obj.items]
                made.rest = None if obj.rest is None else self._tagged(node, obj.rest, tags)
                obj = made
            objs.append(obj)
        return Val(tuple(objs), value.tags | tags)

    def _any_member(self, owner: Val, index: Val, node: cst.Subscript) -> Val:
        if not owner.objs or not any(isinstance(o, (Seq, Map)) or (isinstance(o, Inst) and is_module(o)) for o in owner.objs):
            index = _as_rows(index)
        inner = self.element(owner, node)
        if owner.tagged("rows") and index.tagged("rows"):
            inner = kinds.ragged(inner, node)
        return Val(inner.objs, inner.tags | frozenset(t for t in index.tags if t.kind not in {"mixed"}))

    def _member(self, owner: Val, key: object) -> Val:
        if isinstance(key, int) and not isinstance(key, bool):
            return self.item(owner, key)
        found = []
        for obj in owner.objs:
            if isinstance(obj, Map):
                found.append(join(obj.items.get(key), obj.rest) if _hashable(key) else obj.rest)
            elif isinstance(obj, Inst):
                found.append(obj.attrs.get(str(key)) or obj.attrs.get("[]"))
                found.append(Val((), owner.tags))
        return join(*found) if found else Val((), owner.tags)

    def item(self, value: Val, index: int) -> Val:
        """Member ``index`` of a sequence, or of data."""
        if value.tagged("shape"):
            size = value if index == 0 else kinds.without_local(value)
            return Val((), frozenset(t for t in size.tags if t.kind != "shape"))
        found: list[Val | None] = []
        for obj in value.objs:
            if isinstance(obj, Seq):
                if -len(obj.items) <= index < len(obj.items):
                    found.append(obj.items[index])
                found.append(obj.rest)
            elif isinstance(obj, Map):
                found.append(join(obj.items.get(index), obj.rest))
            elif isinstance(obj, Inst):
                found.append(self._indexed(obj, value))
        if not found:
            return Val((), value.tags)
        return join(*found)

    def _indexed(self, obj: Inst, value: Val) -> Val:
        if is_module(obj):
            part = obj.attrs.get("[]")
            return part or Val((Bound(obj.site, Val((obj,)), "[]"),), frozenset({Tag("param", obj)}))
        if obj.qualified == "torch.utils.data.random_split":
            return Val((obj,), value.tags)
        return Val((), value.tags) if "[]" not in obj.attrs else obj.attrs["[]"]

    def element(self, value: Val, node: cst.CSTNode) -> Val:
        """What iterating over ``value`` yields."""
        from scaffold.roles.calls import iterate

        return iterate(self, value, node)

    def comprehension(self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp) -> Val:
        """Run the element expression once with the loop variables bound."""
        outer = dict(self.frame.scope.vars)
        members = self._for_in(node.for_in)
        value = self.eval(node.elt)
        self._end_for_in(node.for_in, outer)
        obj = self.at_site(node, "seq", lambda: Seq(node, [], None, "list"))
        assert isinstance(obj, Seq)
        obj.rest = join(obj.rest, value)
        if not isinstance(node, cst.SetComp):
            obj.items = []
            if self._draws_a_batch(node, value):
                rows = frozenset({Tag("rows", node, node)})
                obj.rest = Val(obj.rest.objs, obj.rest.tags | rows)
                value = Val((), value.tags | rows)
        else:
            obj.kind = "set"
        return Val((obj,), value.tags | kinds.without_local(members).tags | self._unordered(node))

    def _draws_a_batch(self, node: cst.ListComp | cst.GeneratorExp, value: Val) -> bool:
        """Whether a comprehension over a range draws one index after the other."""
        from scaffold.roles.calls import mark_batch_size

        bounds = [i for i in self.trace.value(node.for_in.iter).insts() if i.qualified == "range"]
        if not bounds or not self.repeats() or node in self.made_before or not value.tagged("draw") or value.tagged("rows", "offset") or not isinstance(node, cst.ListComp):
            return False
        mark_batch_size(self, bounds[0].args[-1] if bounds[0].args else None)
        self.event("draw", node, value=value)
        return True

    @staticmethod
    def _unordered(node: cst.CSTNode) -> frozenset[Tag]:
        """A set's order differs from process to process."""
        return frozenset({Tag("entropy", "set", node)}) if isinstance(node, (cst.Set, cst.SetComp)) else frozenset()

    def dict_comprehension(self, node: cst.DictComp) -> Val:
        """``{k: v for ...}``; keys of a literal sequence are kept apart."""
        obj = self.at_site(node, "dict", lambda: Map(node))
        assert isinstance(obj, Map)
        outer = dict(self.frame.scope.vars)
        source = self.eval(node.for_in.iter)
        members = [o for o in source.objs if isinstance(o, Seq)]
        if members and members[0].items and members[0].rest is None and isinstance(node.for_in.target, cst.Name):
            for index, member in enumerate(members[0].items):
                self.unroll.append(index)
                self.assign(node.for_in.target, member, None)
                keys = self.eval(node.key).consts()
                value = self.eval(node.value)
                self.unroll.pop()
                if len(keys) == 1 and _hashable(keys[0]):
                    obj.items[keys[0]] = join(obj.items.get(keys[0]), value)
        else:
            self._for_in(node.for_in)
            self.eval(node.key)
            obj.rest = join(obj.rest, self.eval(node.value))
            self._end_for_in(node.for_in, outer)
        self.frame.scope.vars = outer
        return Val((obj,))

    def _for_in(self, clause: cst.CompFor) -> Val:
        value = self.eval(clause.iter)
        self.loops.append(Loop(clause, self.frame.source, self.frame, value))
        self.event("iterate", clause, value=value)
        self.assign(clause.target, self.element(value, clause), None)
        for test in clause.ifs:
            self.eval(test.test)
        if clause.inner_for_in is not None:
            return join(value, self._for_in(clause.inner_for_in))
        return value

    def _end_for_in(self, clause: cst.CompFor, outer: dict[str, Val]) -> None:
        inner: cst.CompFor | None = clause
        while inner is not None:
            self.loops.pop()
            inner = inner.inner_for_in
        self.frame.scope.vars = outer

    def walrus(self, node: cst.NamedExpr) -> Val:
        """``(name := value)``."""
        value = self.eval(node.value)
        self.assign(node.target, value, None)
        return value

    def yielded(self, node: cst.Yield) -> Val:
        """``yield``; the values make the generator."""
        inner = node.value.item if isinstance(node.value, cst.From) else node.value
        value = self.eval(inner) if inner is not None else NOTHING
        if isinstance(node.value, cst.From):
            self.event("call", node, name="iter", args=[value])
        self.frame.yields.append(self.element(value, node) if isinstance(node.value, cst.From) else value)
        return NOTHING

    # ---- calls into the project --------------------------------------------------------------------------------

    def enter(self, func: Func, args: list[Val], kwargs: dict[str, Val], call: cst.CSTNode | None) -> Val:
        """Run a project function with these arguments and return what it returns."""
        node = func.node
        if node is None or func.scope is None:
            return NOTHING
        if self.running.count(node) > 1 or len(self.running) > DEPTH or self.steps > self.limit:
            return combined(*args, *kwargs.values())
        self.trace.entered.add(node)
        owner = func.owner if isinstance(func.owner, Inst) else None
        key = (node, id(func.scope), func.owner, tuple(args), tuple(sorted(kwargs.items())), self.no_grad > 0, self._version(func))
        scope = Scope(func.scope.source, node, func.scope)
        self._bind(func, scope, args, kwargs)
        frame = Frame(node, func.scope.source, scope, call, self.frame, owner, func.cls, not self.no_grad, dict(scope.vars))
        if key in self.memo:
            self.trace.aliases.setdefault(node, []).append(frame)
            return self._replay(self.memo[key])
        outer = self.frame
        self.frame = frame
        self.trace.frames.append(frame)
        self.running.append(node)
        start, depth, width = len(self.trace.events), len(self.loops), len(self.branches)
        self.event("enter", node, value=Val((func,)))
        quiet = _quiet(node)
        self.no_grad += quiet
        if isinstance(node, cst.Lambda):
            result = self.eval(node.body)
        else:
            self.body(node.body)
            result = join(*frame.returns)
            if frame.yields:
                made = Seq(node, [], join(*frame.yields), "generator")
                result = Val((made,), combined(*frame.yields).tags)
        self.no_grad -= quiet
        self.running.pop()
        self.frame = outer
        self.memo[key] = Recording(result, start, len(self.trace.events), depth, width)
        return result

    def _replay(self, done: Recording) -> Val:
        """A call with arguments seen before: the same result, and the same passes, backwards and steps once more."""
        if done.end - done.start < _REPLAYED:
            for event in self.trace.events[done.start : done.end]:
                if event.kind in {"forward", "method"} or event.name.rpartition(".")[2] in _ORDERED:
                    again = replace(
                        event, order=len(self.trace.events), loops=(*self.loops, *event.loops[done.depth :]),
                        branches=(*self.branches, *event.branches[done.width :]),
                    )  # fmt: skip
                    self.trace.events.append(again)
        return done.result

    def _version(self, func: Func) -> object:
        if not isinstance(func.owner, Inst):
            return None
        return sum(1 + len(v.objs) + len(v.tags) for v in func.owner.attrs.values())

    def _bind(self, func: Func, scope: Scope, args: list[Val], kwargs: dict[str, Val]) -> None:
        node = func.node
        assert node is not None
        params = [*node.params.posonly_params, *node.params.params]
        values = list(args)
        if func.owner is not None and params:
            values.insert(0, Val((func.owner,)))
        for param in params:
            name = param.name.value
            self._fixed.add((node, name))
            if values:
                scope.vars[name] = values.pop(0)
            else:
                scope.vars[name] = kwargs.get(name, func.defaults.get(name, NOTHING))
            self.trace.values[param.name] = join(self.trace.values.get(param.name), scope.vars[name])
        for param in node.params.kwonly_params:
            self._fixed.add((node, param.name.value))
            scope.vars[param.name.value] = kwargs.get(param.name.value, func.defaults.get(param.name.value, NOTHING))
        if isinstance(node.params.star_arg, cst.Param):
            scope.vars[node.params.star_arg.name.value] = Val((Seq(node, values, None, "tuple"),), combined(*values).tags)
        if node.params.star_kwarg is not None:
            names = {p.name.value for p in (*params, *node.params.kwonly_params)}
            rest: dict[object, Val] = {k: v for k, v in kwargs.items() if k not in names}
            scope.vars[node.params.star_kwarg.name.value] = Val((Map(node, rest),))


_NO_GRAD = {"torch.no_grad", "torch.inference_mode", "torch.set_grad_enabled", "torch.autograd.no_grad"}
_STAR_NAMES: dict[str, tuple[str, ...]] = {
    "torch.nn": ("Module", "Linear", "Sequential", "ModuleList", "Parameter", "CrossEntropyLoss", "MSELoss", "ReLU", "Conv2d", "functional"),
    "torch": ("nn", "optim", "utils", "cuda", "device", "tensor", "load", "save", "manual_seed", "no_grad"),
    "torch.utils.data": ("DataLoader", "Dataset", "TensorDataset", "random_split", "Subset", "IterableDataset"),
    "torch.optim": ("Adam", "SGD", "AdamW", "RMSprop", "lr_scheduler"),
}  # fmt: skip


def _as_rows(bound: Val, slices: bool = False) -> Val:
    """A bound that depends on a drawn index or a loop's offset (in a slice also on a cursor) selects rows; others select nothing local."""
    moving = {"rows", "offset", "cursor"} if slices else {"rows", "offset"}
    tags = {Tag("rows", t.of, t.at) if t.kind in moving else t for t in bound.tags if t.kind not in {"mean", "sum", "count", "ratio", "mixed"}}
    return Val((), frozenset(tags))


def _mode_is_on(value: Val) -> bool:
    insts = [i for i in value.insts() if i.qualified == "torch.set_grad_enabled"]
    return any(v.consts() != [False] for i in insts for v in i.args[:1])


def _quiet(node: cst.CSTNode) -> int:
    decorators = getattr(node, "decorators", ())
    names = [dotted(d.decorator.func if isinstance(d.decorator, cst.Call) else d.decorator) or "" for d in decorators]
    return sum(n.rpartition(".")[2] in {"no_grad", "inference_mode"} for n in names)


def _hashable(key: object) -> bool:
    return isinstance(key, (str, int, float, bool, bytes, type(None)))


def is_module(inst: Inst) -> bool:
    """Whether an instance is an ``nn.Module``."""
    from scaffold.roles.calls import module_name

    return any(module_name(b) for b in inst.bases())
