"""What several rules write: the reduction helpers, and asking where a loader can be named."""

from __future__ import annotations

import libcst as cst

from scaffold.plan import Plan
from scaffold.roles.trace import Frame
from scaffold.roles.values import Inst, Map, Scope, Val
from scaffold.source.edits import Author
from scaffold.source.tree import Source


def collective_device(plan: Plan, dist: str) -> str:
    """An expression for the device whose tensors the process group can send; '' where everything is on the CPU."""
    if plan.device == "cpu":
        return ""
    if plan.device == "cuda" and plan.options.backend in (None, "nccl"):
        return '"cuda"'
    return f'"cuda" if {dist}.get_backend() == "nccl" else "cpu"'


def _device(plan: Plan, dist: str) -> str:
    device = collective_device(plan, dist)
    return f", device={device}" if device else ""


def all_reduce_sum(plan: Plan, author: Author, source: Source) -> str:
    """Name of the generated function that adds a number or tensor up over all ranks."""
    name = plan.free(source, "all_reduce_sum")
    dist = plan.dist(author, source)
    torch = plan.torch(author, source)
    author.helper(
        source,
        name,
        f'''def {name}(value):
    """Sum of a number or tensor over all ranks."""
    dtype = {torch}.float64 if isinstance(value, float) else None
    total = {torch}.as_tensor(value, dtype=dtype{_device(plan, dist)}).detach().clone()
    {dist}.all_reduce(total)
    return total.to(value.device) if {torch}.is_tensor(value) else total.tolist()
''',
    )
    return name


def all_reduce_mean(plan: Plan, author: Author, source: Source) -> str:
    """Name of the generated function that averages a number or tensor over all ranks."""
    name = plan.free(source, "all_reduce_mean")
    total = all_reduce_sum(plan, author, source)
    dist = plan.dist(author, source)
    author.helper(
        source,
        name,
        f'''def {name}(value):
    """Mean of a number or tensor over all ranks, which hold equal shares of each batch."""
    return {total}(value) / {dist}.get_world_size()
''',
    )
    return name


def reducer(plan: Plan, author: Author, source: Source, kind: str) -> str:
    """The generated function that makes a ``mean``, ``sum`` or ``count`` global."""
    return (all_reduce_mean if kind == "mean" else all_reduce_sum)(plan, author, source)


def any_rank(plan: Plan, author: Author, source: Source) -> str:
    """Name of the generated function that tells all ranks whether a condition holds on any of them."""
    name = plan.free(source, "any_rank")
    dist = plan.dist(author, source)
    torch = plan.torch(author, source)
    author.helper(
        source,
        name,
        f'''def {name}(condition):
    """Whether a condition holds on any rank, so that all ranks take the same branch."""
    flag = {torch}.tensor(float(bool(condition)){_device(plan, dist)})
    {dist}.all_reduce(flag, op={dist}.ReduceOp.MAX)
    return bool(flag)
''',
    )
    return name


def broadcast_object(plan: Plan, author: Author, source: Source) -> str:
    """Name of the generated function that gives every rank the object of rank 0."""
    name = plan.free(source, "from_rank_0")
    dist = plan.dist(author, source)
    author.helper(
        source,
        name,
        f'''def {name}(value):
    """The value that rank 0 has, on every rank."""
    box = [value]
    {dist}.broadcast_object_list(box, src=0)
    return box[0]
''',
    )
    return name


def name_in(frame: Frame, inst: Inst) -> str | None:
    """A variable or ``self`` attribute that holds ``inst`` in the scope of ``frame``."""
    scope: Scope | None = frame.scope
    while scope is not None:
        for name, value in scope.vars.items():
            if inst in value.objs and len(value.insts()) == 1:
                return name
            if (entry := _entry_of(value, inst)) is not None:
                return f"{name}{entry}"
        scope = scope.parent
    scope = frame.scope
    while scope is not None:
        for name, value in scope.vars.items():
            for owner in value.insts():
                for attr, held in owner.attrs.items():
                    if inst in held.objs and attr != "[]" and len(held.insts()) == 1:
                        return f"{name}.{attr}"
                    if (entry := _entry_of(held, inst)) is not None:
                        return f"{name}.{attr}{entry}"
        scope = scope.parent
    return None


def _entry_of(value: Val, inst: Inst) -> str | None:
    """``["key"]``, if a value is one dictionary that holds ``inst`` under a plain name."""
    if len(value.objs) == 1 and isinstance(value.objs[0], Map):
        for key, held in value.objs[0].items.items():
            if isinstance(key, str) and inst in held.objs and len(held.insts()) == 1:
                return f'["{key}"]'
    return None


def keyword(call: cst.Call, name: str) -> cst.Arg | None:
    """The argument ``name=`` of a call."""
    return next((a for a in call.args if a.keyword is not None and a.keyword.value == name), None)
