"""Wrap each trained model in ``DistributedDataParallel``, last, under a name of its own.

DDP averages the gradients of all ranks during ``backward``. It must see the model as it will be trained: on its device, loaded,
frozen or thawed, converted. The wrapper gets a new name and takes the training forward only; the bare module keeps its
name for everything else (attributes, checkpoints, EMA copies, evaluation), so none of those change.

Before::

    model = Net().cuda()
    loss = criterion(model(x), y)

After::

    model = Net().cuda()
    ddp_model = DDP(model, device_ids=[local_rank])
    loss = criterion(ddp_model(x), y)

Where the order of calls does not suit DDP's hooks (SC303), gradients are averaged by hand instead.

Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.sync import Sync
from scaffold.rules import Diagnostic
from scaffold.source.edits import HEAD, Author

ID = "SC301"
NAME = "wrap-model"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Insert the wrapper behind the last change to the model and use it for the training forward."""
    for sync in plan.syncs:
        if sync.mode == "ddp":
            _wrap(plan, author, sync)
    return ()


def _wrap(plan: Plan, author: Author, sync: Sync) -> None:
    storage, anchor, source = sync.storage, sync.anchor, sync.anchor_source
    assert storage is not None and anchor is not None and source is not None
    author.need(source, "from torch.nn.parallel import DistributedDataParallel as DDP")
    wrapper = plan.wrapper(source, storage.name)
    prefix = f"{source.self_name(anchor)}." if storage.kind == "attr" else ""
    arguments = [f"{prefix}{storage.name}"]
    if plan.device == "cuda":
        arguments.append(f"device_ids=[{plan.local_rank(author, source, anchor)}]")
    comment = ""
    if sync.unused:
        arguments.append("find_unused_parameters=True")
        comment = f"  # {sync.unused}"
    if sync.repeated:
        arguments.append("broadcast_buffers=False")
        comment = comment or "  # several forwards before one backward"
    author.after(source, anchor, f"{prefix}{wrapper} = DDP({', '.join(arguments)}){comment}", HEAD)
    for item in sync.replacements:
        _use(plan, author, item.source, item.node, wrapper, item.both)
    wrappers = {e.node for e in plan.facts.trace.named("torch.nn.DataParallel")}
    for place, node in sync.unwrapped:
        if any(a in wrappers or isinstance(a, cst.Call) and place.code(a).startswith("isinstance(") and "DataParallel" in place.code(a) for a in place.ancestors(node)):
            continue  # SC311 takes the wrapper out, and a question about it is answered alike
        start, end = place.outer_span(node)
        author.splice(place, end, end, ".module")


def _use(plan: Plan, author: Author, source: object, node: cst.BaseExpression, wrapper: str, both: bool) -> None:
    from scaffold.source.tree import Source

    assert isinstance(source, Source)
    text = f"{source.code(node.value)}.{wrapper}" if isinstance(node, cst.Attribute) else wrapper
    if both:
        text = f"({text} if {plan.torch(author, source)}.is_grad_enabled() else {source.code(node)})"
    author.replace(source, node, text)
