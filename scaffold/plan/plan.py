"""The plan: decisions that several rules share."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import libcst as cst

from scaffold.plan.carried import carried
from scaffold.plan.device import device_kind
from scaffold.plan.evaluation import shardable
from scaffold.plan.locals import Part, accumulated
from scaffold.plan.losses import Losses, plan_losses
from scaffold.plan.meters import shown_curves, shown_meters
from scaffold.plan.options import Options
from scaffold.plan.outputs import outputs
from scaffold.plan.places import parameters
from scaffold.plan.regions import divided_loops
from scaffold.plan.setup import Setup, find_setup
from scaffold.plan.sharding import Sharding, parameter_reductions, plan_sharding
from scaffold.plan.sync import Sync, plan_sync
from scaffold.plan.timing import nodes_at_import
from scaffold.roles import api
from scaffold.roles.facts import Facts, Loader, loaders_of
from scaffold.roles.trace import Frame
from scaffold.roles.values import Ext, Seq
from scaffold.source.edits import Author
from scaffold.source.project import Project
from scaffold.source.tree import Source, children, walk


@dataclass(eq=False)
class Plan:
    """Shared decisions for one conversion."""

    facts: Facts
    options: Options
    reductions: dict[cst.CSTNode, dict[str, str]] = field(default_factory=dict)
    each_step: tuple[tuple[Source, Part], ...] = ()
    divided_evaluation: frozenset[cst.CSTNode] = frozenset()
    losses: Losses = field(default_factory=Losses)

    @classmethod
    def of(cls, project: Project, options: Options, facts: Facts | None = None) -> Plan:
        """Follow the project, decide what is reduced behind which loop, and follow it again with that in place."""
        first = facts or Facts.of(project, global_batch=options.batch == "global")
        losses, first = plan_losses(project, first)
        divided = shardable(first, [x for x in first.loaders if x.role == "eval"], losses.functions()) if options.divides_evaluation else []
        data = {*first.train_data, *first.divided_ranges, *first.divided_cursors, *(x.inst for x in divided)}
        reductions: dict[cst.CSTNode, dict[str, str]] = {}
        each_step: list[tuple[Source, Part]] = []
        for loop in divided_loops(first, data):
            kept = {}
            for item in carried(first, loop.source, loop.node, data):
                if item.kind and item.reset:
                    kept[item.name] = item.kind
                elif not item.kind and (terms := accumulated(first, loop.source, loop.node, item.name, data)):
                    kept[item.name] = ""
                    each_step += [(loop.source, t) for t in terms]
            if kept:
                reductions[loop.node] = kept
        meters = shown_meters(first, data) + shown_curves(first, data, {x.node for x in divided_loops(first, data)})
        each_step += [m for m in meters if m not in each_step]
        changed = losses.changed() | {part.node: "whole" for _, part in meters}
        second = Facts.of(project, reductions, changed, first) if reductions or meters else first
        return cls(second, options, reductions, tuple(each_step), frozenset(x.node for x in divided), losses)

    @cached_property
    def setup(self) -> Setup | None:
        """Where the process group is made."""
        return find_setup(self.facts)

    @cached_property
    def syncs(self) -> list[Sync]:
        """How each trained model is synchronised."""
        return list(self.shardings) if self.options.strategy == "fsdp2" else plan_sync(self.facts)

    @cached_property
    def shardings(self) -> list[Sharding]:
        """How each trained model is sharded; none under DDP."""
        return plan_sharding(self.facts) if self.options.strategy == "fsdp2" else []

    @cached_property
    def parameter_reductions(self) -> list[tuple[Source, cst.Call]]:
        """Reductions of sharded parameters in the script's own code."""
        sharded = {s.model.inst for s in self.shardings if not s.reason}
        return parameter_reductions(self.facts, sharded) if sharded else []

    @cached_property
    def device(self) -> str:
        """``cuda`` (always), ``maybe`` (by a test or an option) or ``cpu`` (never asks for CUDA)."""
        return device_kind(self.facts)

    @cached_property
    def half_precision(self) -> str:
        """The dtype that every ``autocast`` of the script computes in, '' where there is none or it is not written plainly."""
        found = set()
        for event in self.facts.trace.named("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast"):
            given = event.argument(0 if ".cuda." in event.name else 1, "dtype")
            names = {o.name.rpartition(".")[2] for o in given.objs if isinstance(o, Ext)} if given is not None else {"float16"}
            found |= names or {""}
        return found.pop() if len(found) == 1 else ""

    # ---- names -------------------------------------------------------------------------------------------------

    @cached_property
    def names(self) -> dict[str, str]:
        """The variables that set-up makes, renamed where the script uses the name for something else."""
        source = self.setup.source if self.setup else self.facts.project.entry
        return {n: n if n not in source.names else f"dist_{n}" for n in ("rank", "world_size", "local_rank")}

    def wrapper(self, source: Source, name: str) -> str:
        """A free name for the wrapper of the module called ``name``."""
        wanted = f"ddp_{name.lstrip('_')}"
        while wanted in source.names:
            wanted += "_"
        return wanted

    def wrapper_in(self, sync: Sync, source: Source) -> str:
        """The name that the wrapper of ``sync`` has where it is used."""
        assert sync.storage is not None
        replaced = sync.replacements[0]
        if isinstance(replaced.node, cst.Name) and replaced.source is not source:
            return replaced.node.value
        return self.wrapper(sync.anchor_source or source, sync.storage.name)

    def free(self, source: Source, wanted: str) -> str:
        """``wanted``, with underscores until nothing in the file has that name."""
        while wanted in source.names:
            wanted += "_"
        return wanted

    def local_name(self, source: Source, node: cst.CSTNode, wanted: str) -> str:
        """A variable name that is free in the file; the same node always gets the same one."""
        key = (source, source.function(node), source.code(node))
        names = self._locals.setdefault(source, {})
        if key not in names:
            taken = set(names.values())
            name, number = self.free(source, wanted), 2
            while name in taken:
                name, number = self.free(source, f"{wanted}_{number}"), number + 1
            names[key] = name
        return names[key]

    @cached_property
    def _locals(self) -> dict[Source, dict[tuple[object, ...], str]]:
        return {}

    def torch(self, author: Author, source: Source) -> str:
        """How ``source`` refers to ``torch``; asks for the import where it does not yet."""
        name = _imported(source, "torch")
        if name is None:
            author.need(source, "import torch")
        return name or "torch"

    def sleep(self, author: Author, source: Source) -> str:
        """How ``source`` calls ``time.sleep``; asks for the import where it has none."""
        module = _imported(source, "time")
        if module is None and "time" in source.names:
            author.need(source, "from time import sleep")
            return "sleep"
        if module is None:
            author.need(source, "import time")
        return f"{module or 'time'}.sleep"

    def dist(self, author: Author, source: Source) -> str:
        """How ``source`` refers to ``torch.distributed``; asks for the import."""
        taken = "dist" in source.names and b"import torch.distributed as dist" not in source.data
        author.need(source, "import torch.distributed" if taken else "import torch.distributed as dist")
        return "torch.distributed" if taken else "dist"

    def _sees_setup(self, source: Source, node: cst.CSTNode) -> bool:
        setup = self.setup
        if setup is None or setup.source is not source:
            return False
        if isinstance(setup.scope, cst.Module):
            return True
        return setup.scope in source.ancestors(node) or node is setup.scope

    def rank(self, author: Author, source: Source, node: cst.CSTNode) -> str:
        """An expression for the rank of this process at ``node``; code that runs at import asks torchrun's environment."""
        if node in nodes_at_import(self.facts):
            author.need(source, "import os")
            return 'int(os.environ.get("RANK", 0))'
        if self._in_worker(source, node):
            author.need(source, "import os")
            return 'int(os.environ["RANK"])'
        return self.names["rank"] if self._sees_setup(source, node) else f"{self.dist(author, source)}.get_rank()"

    @staticmethod
    def _in_worker(source: Source, node: cst.CSTNode) -> bool:
        """Whether code may run in a DataLoader's worker process, which knows no process group: a method of a class with ``__getitem__``."""
        function = source.function(node)
        if not isinstance(function, cst.FunctionDef) or function.name.value == "__init__":
            return False
        owner = source.parents.get(source.parents[function])
        return isinstance(owner, cst.ClassDef) and any(isinstance(n, cst.FunctionDef) and n.name.value == "__getitem__" for n in owner.body.body)

    def world_size(self, author: Author, source: Source, node: cst.CSTNode) -> str:
        """An expression for the number of processes at ``node``."""
        if self._sees_setup(source, node):
            return self.names["world_size"]
        if node in nodes_at_import(self.facts):
            author.need(source, "import os")
            return 'int(os.environ.get("WORLD_SIZE", 1))'
        return f"{self.dist(author, source)}.get_world_size()"

    def local_rank(self, author: Author, source: Source, node: cst.CSTNode) -> str:
        """An expression for the index of this process's GPU at ``node``."""
        if self.device != "cpu" and self._sees_setup(source, node):
            return self.names["local_rank"]
        author.need(source, "import os")
        return 'int(os.environ["LOCAL_RANK"])'

    def is_main(self, author: Author, source: Source, node: cst.CSTNode) -> str:
        """A test that holds on one process only."""
        return f"{self.rank(author, source, node)} == 0"

    # ---- data --------------------------------------------------------------------------------------------------

    @cached_property
    def train_loaders(self) -> list[Loader]:
        """Loaders that feed training."""
        return [x for x in self.facts.loaders if x.role == "train"]

    @cached_property
    def eval_loaders(self) -> list[Loader]:
        """Loaders that feed evaluation only."""
        return [x for x in self.facts.loaders if x.role == "eval"]

    @cached_property
    def sharded(self) -> set[object]:
        """Everything whose data is divided among the ranks."""
        return {*self.facts.train_data, *self.facts.divided_ranges, *self.facts.divided_cursors, *(x.inst for x in self.eval_loaders if x.node in self.divided_evaluation)}

    @cached_property
    def shown(self) -> frozenset[cst.CSTNode]:
        """The calls that show, log or save something."""
        return frozenset(o.node for o in outputs(self.facts))

    @cached_property
    def partly_divided(self) -> dict[cst.CSTNode, str]:
        """Loops that read divided data in one call and whole data in another, with a test that tells them apart ('' if there is none)."""
        found: dict[cst.CSTNode, str] = {}
        for loop in self.facts.step_loops:
            if loop.data not in self.sharded and any(x.node is loop.node and x.data in self.sharded for x in self.facts.step_loops):
                over = loop.node.iter if isinstance(loop.node, cst.For) else None
                names = [n for n in walk(over) if isinstance(n, (cst.Name, cst.Attribute, cst.Subscript)) and loop.data in self.facts.trace.value(n).objs] if over else []
                found[loop.node] = f"isinstance({loop.source.code(names[0])}.sampler, (DistributedSampler, range))" if names else ""
        return found

    @cached_property
    def _evaluating(self) -> set[cst.CSTNode]:
        """Calls into functions that read data: all ranks must make them, for they may hold collectives."""
        events = [e for e in self.facts.trace.of_kind("iterate") if loaders_of(e.value)]
        events += [x.event for x in divided_loops(self.facts, self.sharded)]
        return self.facts.calls_to(events) | self._gathering

    @cached_property
    def _gathering(self) -> set[cst.CSTNode]:
        """Calls that run a sharded model, which gathers its parameters from all ranks."""
        sharded = {m.inst for s in self.shardings for m in s.models}
        runs = [e for e in self.facts.trace.of_kind("forward", "method") if any(self.facts.trace.root(i) in sharded for i in e.value.insts())]
        return {e.node for e in runs} | self.facts.calls_to(runs)

    def collective_calls(self, source: Source, node: cst.CSTNode) -> list[cst.BaseExpression]:
        """The outermost calls inside ``node`` that every rank must make."""
        found: list[cst.BaseExpression] = []
        stack = [a.value for a in node.args] if isinstance(node, cst.Call) else [node]
        while stack:
            current = stack.pop(0)
            if isinstance(current, cst.Call) and current in self._evaluating:
                found.append(current)
            elif not isinstance(current, cst.Lambda):
                stack += list(children(current))
        return found

    def telling_apart(self, loader: Loader, twins: list[Loader]) -> str:
        """A test over a parameter that holds where ``loader``'s call makes a training loader and fails where it does not."""
        source = loader.source
        function = source.function(loader.node)
        frames = self.facts.called_from(function)
        train = {f for f in frames for x in twins if x.role == "train" and self._made_in(x, f)}
        other = {f for f in frames for x in twins if x.role != "train" and self._made_in(x, f)}
        for name in parameters(function):
            yes = {c for f in train for c in f.scope.vars[name].consts() if name in f.scope.vars}
            no = {c for f in other for c in f.scope.vars[name].consts() if name in f.scope.vars}
            if len(yes) == 1 and no and not yes & no:
                value = next(iter(yes))
                return name if value is True else f"not {name}" if value is False else f"{name} == {value!r}"
        return ""

    @staticmethod
    def _made_in(loader: Loader, frame: Frame) -> bool:
        values = [*frame.returns, *frame.scope.vars.values()]
        values += [i for v in frame.returns for o in v.objs if isinstance(o, Seq) for i in o.items]
        return any(loader.inst in v.objs for v in values)

    @property
    def trackers(self) -> tuple[str, ...]:
        """Prefixes of experiment trackers' modules."""
        return api.TRACKERS


def _imported(source: Source, module: str) -> str | None:
    """The name that an ``import`` of ``module`` at the top level gives it."""
    for statement in source.tree.body:
        for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if isinstance(small, cst.Import):
                for alias in small.names:
                    if isinstance(alias.name, cst.Name) and alias.name.value == module:
                        return alias.evaluated_alias or module
    return None
