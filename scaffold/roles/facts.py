"""Typed facts about a training script, drawn from its trace: models, optimizers, loaders, loops and what they do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import libcst as cst

from scaffold.roles import api, calls
from scaffold.roles.follow import Interpreter
from scaffold.roles.trace import Event, Frame, Loop, Trace
from scaffold.roles.values import NOTHING, Bound, Class, Func, Inst, Map, Seq, Tag, Val
from scaffold.source.project import Project
from scaffold.source.tree import Source, walk


@dataclass(eq=False)
class Optimizer:
    """An optimizer and the modules whose parameters it was given."""

    inst: Inst
    models: list[Inst]
    steps: list[Event] = field(default_factory=list)


@dataclass(eq=False)
class Model:
    """A module that is trained; ``live`` are the calls whose gradients an optimizer uses."""

    inst: Inst
    optimizers: list[Optimizer] = field(default_factory=list)
    live: list[Event] = field(default_factory=list)
    idle: list[Event] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Class name, for messages."""
        return self.inst.qualified.rpartition(".")[2]


@dataclass(eq=False)
class Loader:
    """A DataLoader (one per place and calling context); ``role`` is ``train``, ``eval`` or ``unused``."""

    inst: Inst
    role: str = "unused"
    iterations: list[Event] = field(default_factory=list)

    @property
    def node(self) -> cst.Call:
        """The call that makes it."""
        assert self.inst.call is not None
        return self.inst.call

    @property
    def source(self) -> Source:
        """The file it is made in."""
        assert self.inst.source is not None
        return self.inst.source


@dataclass(eq=False)
class StepLoop:
    """A loop over batches; ``data`` is the loader, range or draw that feeds it, ``training`` whether it trains."""

    node: cst.For | cst.While | cst.CompFor
    source: Source
    frame: Frame
    data: object
    training: bool
    event: Event


@dataclass(eq=False)
class Facts:
    """Everything the rules may ask about a project."""

    project: Project
    trace: Trace
    made_before: frozenset[cst.CSTNode] = frozenset()
    global_batch: bool = False
    changed: frozenset[cst.CSTNode] = frozenset()

    @classmethod
    def of(
        cls,
        project: Project,
        reduced: Mapping[cst.CSTNode, Iterable[str]] | None = None,
        changed: Mapping[cst.CSTNode, str] | None = None,
        known: Facts | None = None,
        global_batch: bool = False,
    ) -> Facts:
        """Follow a project and collect its facts; arguments as in :class:`Interpreter`, ``known`` from an earlier look."""
        made_before = known.made_before if known else frozenset()
        global_batch = known.global_batch if known else global_batch
        facts = cls(project, Interpreter(project, reduced, changed, made_before, global_batch).run(), made_before, global_batch, frozenset(changed or ()))
        more = facts._drawn_before_training
        return cls.of(project, reduced, changed, cls(project, facts.trace, made_before | more, global_batch)) if more else facts

    # ---- training ----------------------------------------------------------------------------------------------

    @cached_property
    def backwards(self) -> list[Event]:
        """Every ``loss.backward()`` (also through a scaler or ``torch.autograd.backward``)."""
        found = []
        for event in self.trace.of_kind("call"):
            short = event.name.rpartition(".")[2]
            if short == "backward" and event.name != "torch.autograd.grad":
                found.append(event)
        return found

    def loss_of(self, event: Event) -> Val:
        """The value that a backward event starts from."""
        if event.name == "torch.autograd.backward" and event.args:
            return event.args[0]
        return event.value

    @cached_property
    def steps(self) -> list[tuple[Event, Inst]]:
        """Every optimizer step with the optimizer that takes it."""
        found = []
        for event in self.trace.of_kind("call"):
            if event.name == "optimizer.step":
                found += [(event, i) for i in event.value.insts() if calls.role(i) == "optimizer"]
            elif event.name == "scaler.step" and event.args:
                found += [(event, i) for i in event.args[0].insts() if calls.role(i) == "optimizer"]
        return found

    @cached_property
    def optimizers(self) -> list[Optimizer]:
        """Optimizers, each with the root modules whose parameters it holds."""
        found: dict[Inst, Optimizer] = {}
        made = [e for e in self.trace.of_kind("call") if e.result.insts()]
        for event in made:
            for inst in event.result.insts():
                if calls.role(inst) == "optimizer" and inst not in found:
                    found[inst] = Optimizer(inst, self._given(inst))
        for event, inst in self.steps:
            found.setdefault(inst, Optimizer(inst, self._given(inst))).steps.append(event)
        return list(found.values())

    def _given(self, inst: Inst) -> list[Inst]:
        tags: set[Tag] = set()
        for value in (*inst.args, *inst.kwargs.values()):
            tags |= deep_tags(value, 4)
        roots = [self.trace.root(t.of) for t in tags if t.kind == "param" and isinstance(t.of, Inst)]
        for value in (*inst.args, *inst.kwargs.values()):
            owners = [i for o in value.objs if isinstance(o, Bound) and o.owner for i in o.owner.insts()]
            roots += [m for i in owners if i is not inst and calls.role(i) == "optimizer" for m in self._given(i)]
        return sorted(dict.fromkeys(roots), key=lambda i: i.order)

    @cached_property
    def models(self) -> list[Model]:
        """Modules that are trained: they take part in a backward and an optimizer (or hand-written update) owns them."""
        by_inst: dict[Inst, Model] = {}
        held = {m for o in self.optimizers for m in o.models}
        hand = self.hand_updated
        for event in self.backwards:
            for tag in _sorted_tags(self.loss_of(event), "grad"):
                inst = tag.of
                if isinstance(inst, Inst) and self.has_parameters(inst) and (inst in held or inst in hand or not (held or hand)):
                    by_inst.setdefault(inst, Model(inst))
        for model in by_inst.values():
            model.optimizers = [o for o in self.optimizers if model.inst in o.models]
            self._split_calls(model)
        return sorted(by_inst.values(), key=lambda m: m.inst.order)

    @cached_property
    def hand_updated(self) -> set[Inst]:
        """Modules whose parameters are changed by the script's own code from ``p.grad``."""
        found: set[Inst] = set()
        for node in self.trace.values:
            if isinstance(node, cst.Attribute) and node.attr.value == "grad":
                owner = self.trace.value(node.value)
                found.update(t.of for t in owner.tags if t.kind == "param" and isinstance(t.of, Inst))
        return found

    def _split_calls(self, model: Model) -> None:
        """Tell calls whose gradients are used from those zeroed before any step of this model (a critic in a generator's step)."""
        live: dict[cst.CSTNode, bool] = {}
        for event in self.backwards:
            nodes = [t.at for t in self.loss_of(event).tags if t.kind == "grad" and t.of is model.inst and t.at is not None]
            used = self._grads_used(model, event)
            for node in nodes:
                live[node] = live.get(node, False) or used
        seen: set[tuple[cst.CSTNode, bool]] = set()
        for event in self.trace.of_kind("forward", "method"):
            if any(self.trace.root(i) is model.inst for i in event.value.insts()):
                target = model.live if live.get(event.node) and event.grad else model.idle
                if (event.node, event.grad) not in seen:
                    seen.add((event.node, event.grad))
                    target.append(event)

    def _grads_used(self, model: Model, backward: Event) -> bool:
        stepped = {i for _, i in self.steps}
        if not any(o.inst in stepped for o in model.optimizers):
            return True
        loop = backward.loops[0].node if backward.loops else None
        inside = [e for e in self.trace.events if loop is None or any(x.node is loop for x in e.loops)]
        index = next((i for i, e in enumerate(inside) if e is backward), 0)
        for event in [*inside[index + 1 :], *inside[: index + 1]]:
            if event.kind == "enter" and _own_method(event, {o.inst for o in model.optimizers}):
                return True
            if event.kind != "call":
                continue
            if event.name in {"optimizer.step", "scaler.step"}:
                taking = event.value.insts() if event.name == "optimizer.step" else event.args[0].insts() if event.args else []
                if any(o.inst in taking and model.inst in o.models for o in self.optimizers):
                    return True
            elif event.name == "optimizer.zero_grad":
                if any(o.inst in event.value.insts() and model.inst in o.models for o in self.optimizers):
                    return False
            elif event.name in {"module.zero_grad"} and any(self.trace.root(i) is model.inst for i in event.value.insts()):
                return False
        return False

    def has_parameters(self, inst: Inst) -> bool:
        """Whether a module has parameters of its own (a loss like ``nn.MSELoss`` has none)."""
        return self._has_parameters(inst, set())

    def _has_parameters(self, inst: Inst, seen: set[Inst]) -> bool:
        if inst in seen:
            return False
        seen.add(inst)
        if isinstance(inst.cls, str):
            if inst.cls in api.CONTAINERS:
                return any(self._has_parameters(c, seen) for c in self.children(inst)) or not self.children(inst)
            if inst.cls == "torch.nn.Parameter":
                return True
            return calls.module_name(inst.cls) and not (
                inst.cls.startswith("torch.nn.") and inst.cls.rpartition(".")[2] in api.NO_PARAMETERS
            )
        foreign = [b for b in inst.bases() if b not in {api.MODULE, "object", "abc.ABC"} | api.CONTAINERS and calls.module_name(b)]
        if any(b.rpartition(".")[2] not in api.NO_PARAMETERS for b in foreign):
            return True
        return any(
            isinstance(i.cls, str) and i.cls == "torch.nn.Parameter" or self._has_parameters(i, seen)
            for value in inst.attrs.values()
            for i in _members(value)
            if calls.role(i) == "module" or i.qualified == "torch.nn.Parameter"
        )

    def children(self, inst: Inst) -> list[Inst]:
        """The modules that are direct parts of a module."""
        return [child for child, links in self.trace.parents.items() if any(p is inst for p, _ in links)]

    def parts(self, inst: Inst) -> Iterator[Inst]:
        """A module and all its parts."""
        seen, stack = {inst}, [inst]
        while stack:
            current = stack.pop()
            yield current
            for child in self.children(current):
                if child not in seen:
                    seen.add(child)
                    stack.append(child)

    def has_batch_norm(self, inst: Inst) -> bool:
        """Whether a module holds batch normalisation, as far as its parts are known."""
        for part in self.parts(inst):
            name = part.qualified.rpartition(".")[2]
            if name in api.BATCH_NORMS or (isinstance(part.cls, str) and name.startswith(api.NORMED_MODELS)):
                return True
            if isinstance(part.cls, str) and part.cls.startswith(api.UNKNOWN_MODULES):
                return True
        return False

    # ---- data --------------------------------------------------------------------------------------------------

    @cached_property
    def train_data(self) -> list[object]:
        """What feeds training: loaders, ranges that slice, and draws, found in the losses that are differentiated."""
        found: dict[object, None] = {}
        for event in self.backwards:
            around = {i for x in event.loops for i in unwrap(x.value)}
            for tag in sorted(self.loss_of(event).sources(), key=_tag_order):
                if not (isinstance(tag.of, Inst) and tag.of.qualified == "range") or tag.of in around or self._yields(tag.of):
                    found[tag.of] = None
            for loop in event.loops:
                for loader in loaders_of(loop.value):
                    found[loader] = None
        return list(found)

    @cached_property
    def _drawn_before_training(self) -> frozenset[cst.CSTNode]:
        """Draws that look like batches, but are made once: the data set itself."""
        training = {x.node for e in self.backwards for x in e.loops}
        drawn = [e for e in self.trace.of_kind("call", "draw") if any(t.kind == "rows" and t.of is e.node for t in e.result.tags | e.value.tags) or e.kind == "draw"]
        stepwise = {e.node for e in drawn if any(x.node in training for x in e.loops)}
        return frozenset(e.node for e in drawn) - stepwise if training else frozenset()

    def _offsets(self, node: cst.Subscript) -> set[Inst]:
        """The ranges at whose offsets a subscript cuts."""
        bounds: list[cst.CSTNode | None] = []
        for element in node.slice:
            part = element.slice
            if isinstance(part, cst.Index):
                bounds.append(part.value)
            elif isinstance(part, cst.Slice):
                bounds += [part.lower, part.upper]
        tags = {t for b in bounds if b is not None for t in self.trace.value(b).tags if t.kind == "offset"}
        return {t.of for t in tags if isinstance(t.of, Inst)}

    def _yields(self, data: Inst) -> bool:
        """Whether a range drives a generator of batches."""
        if data.source is None or data.call is None:
            return False
        loop = next((a for a in data.source.ancestors(data.call) if isinstance(a, cst.For)), None)
        return loop is not None and any(isinstance(n, cst.Yield) for n in walk(loop.body))

    @cached_property
    def fed_by_loops(self) -> bool:
        """Whether loaders or ranges feed training, so that what is drawn beside them is noise and not data."""
        return any(isinstance(d, Inst) for d in self.train_data)

    @cached_property
    def divided_ranges(self) -> list[Inst]:
        """The ranges whose offsets cut training batches, and every other range that shares a subscript with one of them."""
        found = {d for d in self.train_data if isinstance(d, Inst) and d.qualified == "range" and not columns_of(d)}
        cut = [self._offsets(n) for n in self.trace.values if isinstance(n, cst.Subscript)]
        grown = True
        while grown:
            calls_ = {i.call for i in found}
            more = {o for owners in cut for o in owners if owners & found or o.call in calls_} - found
            grown = bool(more)
            found |= more
        return sorted(found, key=lambda i: i.order)

    @cached_property
    def divided_cursors(self) -> list[Inst]:
        """The cursors at which training batches are cut, and those of other objects at the same places."""
        found = {d for d in self.train_data if isinstance(d, Inst) and d.qualified == "cursor"}
        sites = {d.site for d in found}
        more = {t.of for v in self.trace.values.values() for t in v.tags if t.kind == "rows" and isinstance(t.of, Inst) and t.of.site in sites}
        return sorted(found | {i for i in more if isinstance(i, Inst)}, key=lambda i: id(i.site))

    @cached_property
    def loaders(self) -> list[Loader]:
        """Every DataLoader with its role."""
        found: dict[Inst, Loader] = {}
        for event in self.trace.of_kind("call"):
            for inst in event.result.insts():
                if calls.role(inst) == "loader" and inst.call is not None and inst.site is event.node:
                    found.setdefault(inst, Loader(inst))
        for event in self.trace.events:
            for inst in self._iterated(event):
                if inst in found:
                    found[inst].iterations.append(event)
        for inst, loader in found.items():
            if inst in self.train_data:
                loader.role = "train"
            elif loader.iterations:
                loader.role = "eval"
        return list(found.values())

    def _iterated(self, event: Event) -> list[Inst]:
        if event.kind == "iterate":
            return loaders_of(event.value)
        if event.kind == "call" and event.name in {"iter", "next", "itertools.cycle"} and event.args:
            return loaders_of(event.args[0])
        return []

    @cached_property
    def step_loops(self) -> list[StepLoop]:
        """Loops over batches, each node once per kind of data."""
        found: dict[tuple[cst.CSTNode, object], StepLoop] = {}
        training_nodes = {loop.node for e in self.backwards for loop in e.loops}
        draws = {d for d in self.train_data if isinstance(d, cst.CSTNode) or isinstance(d, Inst) and d.qualified == "cursor"}
        for event in self.trace.of_kind("iterate", "branch"):
            if not event.loops or event.loops[-1].node is not event.node:
                continue
            loop = event.loops[-1]
            if isinstance(loop.node, cst.CompFor):
                continue
            for data in self._data_of(loop):
                training = loop.node in training_nodes and data in self.train_data
                known = found.get((loop.node, data))
                if known is None:
                    found[(loop.node, data)] = StepLoop(loop.node, loop.source, loop.frame, data, training, event)
        for event in self.backwards:
            held = {t.of for t in self.loss_of(event).sources()} & draws
            feeding = [x for x in event.loops if loaders_of(x.value)]
            if held and event.loops and not feeding and not any(isinstance(t.of, Inst) and t.of not in draws for t in self.loss_of(event).sources()):
                loop = self._stepping_loop(event)
                for draw in held:
                    found.setdefault((loop.node, draw), StepLoop(loop.node, loop.source, loop.frame, draw, True, event))
        for event in self.trace.named("next"):
            around = next((x for x in reversed(event.loops) if isinstance(x.node, (cst.For, cst.While)) and x.node in training_nodes), None)
            for loader in loaders_of(event.args[0]) if event.args and around is not None else ():
                if loader in self.train_data and around is not None:
                    found.setdefault((around.node, loader), StepLoop(around.node, around.source, around.frame, loader, True, event))
        for event in self.trace.of_kind("call"):
            if event.node in draws and event.loops and not event.grad and not self.fed_by_loops:
                loop = event.loops[-1]
                if loop.node not in training_nodes and not isinstance(loop.node, cst.CompFor):
                    found.setdefault((loop.node, event.node), StepLoop(loop.node, loop.source, loop.frame, event.node, False, event))
        for event in self.backwards:
            for data in sorted({t for t in self.loss_of(event).sources() if t.of in self.train_data}, key=_tag_order):
                if event.loops and not any((x.node, data.of) in found for x in event.loops):
                    loop = self._stepping_loop(event)
                    found[(loop.node, data.of)] = StepLoop(loop.node, loop.source, loop.frame, data.of, True, event)
        return list(found.values())

    def _stepping_loop(self, backward: Event) -> Loop:
        stepping = {x.node for e, _ in self.steps for x in e.loops}
        inner = [x for x in backward.loops if x.node in stepping]
        return (inner or list(backward.loops))[-1]

    def _data_of(self, loop: Loop) -> list[object]:
        loaders: list[object] = [*loaders_of(loop.value)]
        if loaders:
            return loaders
        divided = {*self.train_data, *self.divided_ranges, *self.divided_cursors}
        yielded = [t.of for v in generators_of(loop.value) for t in sorted(deep_tags(v, 2), key=_tag_order) if t.kind == "rows"]
        if isinstance(loop.node, cst.For) and any(isinstance(i.cls, Class) for i in loop.value.insts()):
            names = [n for n in walk(loop.node.target) if isinstance(n, cst.Name)]
            yielded += [t.of for n in names for t in sorted(self.trace.value(n).tags, key=_tag_order) if t.kind == "rows"]
        return [i for i in dict.fromkeys([*unwrap(loop.value), *yielded]) if i in divided]

    # ---- places ------------------------------------------------------------------------------------------------

    def called_from(self, function: cst.CSTNode) -> list[Frame]:
        """The activations of a function."""
        frames = [f for f in self.trace.frames if f.node is function]
        return frames + self.trace.aliases.get(function, [])

    def calls_to(self, events: Iterable[Event]) -> set[cst.CSTNode]:
        """The calls that lead to some events: of the functions they happen in, wherever these are called from."""
        found: set[cst.CSTNode] = set()
        seen: set[cst.CSTNode] = set()
        pending = [f.node for e in events for f in e.frame.stack()]
        while pending:
            function = pending.pop()
            if function in seen:
                continue
            seen.add(function)
            for frame in (g for f in self.called_from(function) for g in f.stack()):
                pending.append(frame.node)
                if frame.call is not None:
                    found.add(frame.call)
        return found

    def within(self, event: Event, frame_node: cst.CSTNode) -> cst.CSTNode | None:
        """The node of ``frame_node``'s own body at which an event happened (a call into deeper functions, or itself)."""
        node = event.node
        frame: Frame | None = event.frame
        while frame is not None:
            if frame.node is frame_node:
                return node
            if frame.call is None:
                return None
            node, frame = frame.call, frame.caller
        return None


def _own_method(event: Event, optimizers: set[Inst]) -> bool:
    """Whether an optimizer class of the project works on the gradients in a method of its own."""
    return any(isinstance(o, Func) and o.owner in optimizers and isinstance(o.node, cst.FunctionDef) and o.node.name.value not in {"__init__", "zero_grad"} for o in event.value.objs)


def columns_of(data: Inst) -> list[Tag]:
    """The layouts as parallel streams that a range counts through, if it steps along time and not along samples."""
    return [t for v in data.args for t in v.tags if t.kind == "columns"]


def unwrap(value: Val) -> list[Inst]:
    """The instances that a loop runs over, behind ``enumerate``, ``zip``, ``tqdm``, ``iter`` and the like."""
    found: list[Inst] = []
    for inst in value.insts():
        if inst.qualified in calls._PASS_THROUGH | calls._PAIRING:
            for arg in inst.args:
                found += unwrap(arg)
        else:
            found.append(inst)
    return found


def generators_of(value: Val) -> list[Val]:
    """What the generators of the project that a loop runs over yield."""
    found = [o.rest for o in value.objs if isinstance(o, Seq) and o.kind == "generator" and o.rest is not None]
    for inst in value.insts():
        if inst.qualified in calls._PASS_THROUGH | calls._PAIRING:
            found += [v for a in inst.args for v in generators_of(a)]
    return found


def loaders_of(value: Val) -> list[Inst]:
    """The DataLoaders that a loop runs over."""
    return [i for i in unwrap(value) if calls.role(i) == "loader"]


def _members(value: Val) -> Iterator[Inst]:
    for obj in value.objs:
        if isinstance(obj, Inst):
            yield obj
        elif isinstance(obj, Seq):
            for item in (*obj.items, obj.rest or NOTHING):
                yield from item.insts()
        elif isinstance(obj, Map):
            for item in obj.items.values():
                yield from item.insts()


def deep_tags(value: Val, depth: int) -> set[Tag]:
    """The tags of a value and of what its containers hold, ``depth`` levels down."""
    tags = set(value.tags)
    if depth:
        for obj in value.objs:
            parts: Iterable[Val | None] = ()
            if isinstance(obj, Seq):
                parts = (*obj.items, obj.rest)
            elif isinstance(obj, Map):
                parts = (*obj.items.values(), obj.rest)
            elif isinstance(obj, Inst) and obj.qualified in calls._PASS_THROUGH | calls._PAIRING:
                parts = obj.args
            elif isinstance(obj, Inst) and calls.role(obj) == "module":
                tags.add(Tag("param", obj))
            for part in parts:
                if part is not None:
                    tags |= deep_tags(part, depth - 1)
    return tags


def _tag_order(tag: Tag) -> tuple[int, str]:
    return (tag.of.order if isinstance(tag.of, Inst) else 1 << 30, tag.kind)


def _sorted_tags(value: Val, kind: str) -> list[Tag]:
    return sorted((t for t in value.tags if t.kind == kind), key=_tag_order)
