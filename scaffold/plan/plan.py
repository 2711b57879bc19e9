"""The plan: decisions that several rules share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from scaffold.plan.options import Options
from scaffold.plan.places import parameters
from scaffold.plan.setup import Setup, find_setup
from scaffold.plan.sync import Sync, plan_sync
from scaffold.roles import api
from scaffold.roles.facts import Facts, Loader
from scaffold.source.edits import Author
from scaffold.source.tree import Source, walk


@dataclass(eq=False)
class Plan:
    """Shared decisions for one conversion."""

    facts: Facts
    options: Options

    @cached_property
    def setup(self) -> Setup | None:
        """Where the process group is made."""
        return find_setup(self.facts)

    @cached_property
    def syncs(self) -> list[Sync]:
        """How each trained model is synchronised."""
        return plan_sync(self.facts)

    @cached_property
    def device(self) -> str:
        """``cuda`` (always), ``maybe`` (falls back to the CPU) or ``cpu`` (never asks for CUDA)."""
        events = self.facts.trace.events
        asks = any(
            e.kind == "call" and (e.name.endswith(".cuda") or e.name.startswith(("torch.cuda.", "torch.accelerator.")))
            for e in events
            if not e.name.startswith("torch.cuda.manual_seed")
        )
        literal = any(
            isinstance(n, cst.SimpleString) and str(n.evaluated_value).startswith("cuda") for s in self.facts.project.sources for n in walk(s.tree)
        )
        if not asks and not literal:
            return "cpu"
        fallback = any(e.kind == "call" and e.name in {"torch.cuda.is_available", "torch.accelerator.is_available"} for e in events)
        return "maybe" if fallback else "cuda"

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

    def free(self, source: Source, wanted: str) -> str:
        """``wanted``, with underscores until nothing in the file has that name."""
        while wanted in source.names:
            wanted += "_"
        return wanted

    def local_name(self, source: Source, node: cst.CSTNode, wanted: str) -> str:
        """A variable name that is free in the file; the same node always gets the same one."""
        return self.free(source, wanted)

    def torch(self, author: Author, source: Source) -> str:
        """How ``source`` refers to ``torch``; asks for the import where it does not yet."""
        for statement in source.tree.body:
            for small in getattr(statement, "body", ()) if isinstance(statement, cst.SimpleStatementLine) else ():
                if isinstance(small, cst.Import):
                    for alias in small.names:
                        if isinstance(alias.name, cst.Name) and alias.name.value == "torch":
                            return alias.evaluated_alias or "torch"
        author.need(source, "import torch")
        return "torch"

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
        """An expression for the rank of this process at ``node``."""
        return self.names["rank"] if self._sees_setup(source, node) else f"{self.dist(author, source)}.get_rank()"

    def world_size(self, author: Author, source: Source, node: cst.CSTNode) -> str:
        """An expression for the number of processes at ``node``."""
        if self._sees_setup(source, node):
            return self.names["world_size"]
        return f"{self.dist(author, source)}.get_world_size()"

    def local_rank(self, author: Author, source: Source, node: cst.CSTNode) -> str:
        """An expression for the index of this process's GPU at ``node``."""
        if self._sees_setup(source, node):
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
        from scaffold.plan.evaluation import shardable

        found: set[object] = set(self.facts.train_data)
        if self.options.evaluation == "shard":
            found |= {x.inst for x in shardable(self.facts, self.eval_loaders)}
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
    def _made_in(loader: Loader, frame: object) -> bool:
        return any(loader.inst in v.objs for v in getattr(frame, "returns", ())) or any(
            loader.inst in v.objs for v in getattr(frame, "scope").vars.values()  # noqa: B009
        )

    @property
    def trackers(self) -> tuple[str, ...]:
        """Prefixes of experiment trackers' modules."""
        return api.TRACKERS
