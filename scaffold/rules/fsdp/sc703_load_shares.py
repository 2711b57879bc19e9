"""Load whole tensors into shares: each rank takes its part of what the file holds.

``load_state_dict`` does not put a whole tensor into a sharded one. Every rank reads the file and keeps its part; what is already sharded
(a best state kept in memory) is taken as it is.

Before::

    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])

After::

    model.load_state_dict(divide(checkpoint["model"], model.state_dict()))
    optimizer.load_state_dict(divide_optimizer(checkpoint["optimizer"], optimizer))

Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.html#torch.distributed.tensor.distribute_tensor
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.roles.trace import Event
from scaffold.rules import Diagnostic
from scaffold.source.edits import Author
from scaffold.source.tree import Source

ID = "SC703"
NAME = "load-shares"
SEVERITY = "C"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Divide what is loaded behind the sharding."""
    done: set[cst.CSTNode] = set()
    for sharding in plan.shardings:
        if sharding.reason:
            continue
        optimizers = {o.inst for o in sharding.optimizers}
        for event in plan.facts.trace.named("module.load_state_dict", "optimizer.load_state_dict"):
            held = event.value.insts()
            if event.node in done or not isinstance(event.node, cst.Call) or not event.node.args:
                continue
            if sharding.model.inst in held and not _before(plan, event, sharding.anchor_source, sharding.anchor):
                done.add(event.node)
                assert isinstance(event.node.func, cst.Attribute)
                owner = re.sub(r"\.module$", "", event.source.code(event.node.func.value))  # of nn.DataParallel, which SC311 takes out
                author.wrap(event.source, event.node.args[0].value, f"{_divide(plan, author, event.source)}(", f", {owner}.state_dict())")
            elif optimizers & set(held):
                done.add(event.node)
                assert isinstance(event.node.func, cst.Attribute)
                owner = event.source.code(event.node.func.value)
                author.wrap(event.source, event.node.args[0].value, f"{_divide_optimizer(plan, author, event.source)}(", f", {owner})")
    return
    yield


def _before(plan: Plan, event: Event, source: Source | None, anchor: cst.CSTNode | None) -> bool:
    """Whether a load runs before the sharding that stands in front of ``anchor``."""
    assert source is not None and anchor is not None
    at = plan.facts.within(event, source.function(anchor))
    return at is not None and source.span(at)[0] < source.span(anchor)[0]


def _divide(plan: Plan, author: Author, source: Source) -> str:
    name = plan.free(source, "divide")
    author.need(source, "from torch.distributed.tensor import DTensor")
    author.need(source, "from torch.distributed.tensor import distribute_tensor")
    author.helper(
        source,
        name,
        f'''def {name}(state, like):
    """Each rank's part of the whole tensors in ``state``, divided as those in ``like`` are."""
    parts = dict(state)
    for key, tensor in like.items():
        if key in parts and isinstance(tensor, DTensor) and not isinstance(parts[key], DTensor):
            whole = parts[key].to(tensor.device, tensor.dtype)
            parts[key] = distribute_tensor(whole, tensor.device_mesh, tensor.placements, src_data_rank=None)
    return parts
''',
    )
    return name


def _divide_optimizer(plan: Plan, author: Author, source: Source) -> str:
    name = plan.free(source, "divide_optimizer")
    divide = _divide(plan, author, source)
    author.helper(
        source,
        name,
        f'''def {name}(state, optimizer):
    """An optimizer's whole state, divided as its parameters are."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    parts = {{}}
    for number, values in state["state"].items():
        like = {{key: parameters[number] for key, value in values.items() if getattr(value, "shape", None) == parameters[number].shape}}
        parts[number] = {divide}(values, like)
    return {{**state, "state": parts}}
''',
    )
    return name
