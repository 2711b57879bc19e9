"""Divide each trained model among the ranks with ``fully_shard``: blocks first, the whole last, before the optimizer.

Every rank keeps a share of the parameters, gradients and optimizer state, and gathers one block at a time while it computes. The optimizer must
be made from the sharded parameters: one made before holds tensors that never change again. Unlike DDP, ``fully_shard`` does not copy rank 0's
weights to the others, so they are broadcast first.

Before::

    model = GPT(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

After::

    model = GPT(config).to(device)
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)  # fully_shard keeps each rank's own
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

A method that reads parameters without passing through ``forward`` is registered, so that it gathers them too. Scripts that compute in bfloat16
under ``autocast`` get a ``MixedPrecisionPolicy``, so that parameters are gathered in bfloat16.

Reference: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.sharding import Sharding
from scaffold.rules import Diagnostic
from scaffold.source.edits import Author
from scaffold.source.tree import Source

ID = "SC701"
NAME = "shard-model"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Insert the sharding in front of what first keeps the parameters."""
    for sharding in plan.shardings:
        if sharding.reason:
            source, node = sharding.at or (plan.facts.project.entry, plan.facts.project.entry.tree)
            yield Diagnostic.at(
                ID, "error", source, node, f"{sharding.model.name} cannot be sharded: {sharding.reason}", "--strategy ddp if it fits one GPU; else build, move and load the model first, then make the optimizer"
            )  # fmt: skip
            continue
        _insert(plan, author, sharding)
        if not sharding.blocks and not sharding.library:
            assert sharding.at is not None
            yield Diagnostic.at(
                ID, "note", *sharding.at, f"{sharding.model.name} has no list of repeated blocks: it is gathered as a whole in each forward",
                "keep its layers in an nn.ModuleList, or use --strategy ddp if it fits one GPU",
            )  # fmt: skip


def _insert(plan: Plan, author: Author, sharding: Sharding) -> None:
    storage, anchor, source = sharding.storage, sharding.anchor, sharding.anchor_source
    assert storage is not None and anchor is not None and source is not None
    name = f"{source.self_name(anchor)}.{storage.name}" if storage.kind == "attr" else storage.name
    author.need(source, "from torch.distributed.fsdp import fully_shard")
    dist = plan.dist(author, source)
    settings = _settings(plan, author, source, anchor)
    lines = [
        f"for tensor in (*{name}.parameters(), *{name}.buffers()):",
        f"    {dist}.broadcast(tensor.detach(), src=0)  # fully_shard keeps each rank's own",
    ]
    lines += _setup(plan, author, source)
    checkpointed = plan.options.activation_checkpointing
    if checkpointed:
        author.need(source, "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper")
    for path in sharding.blocks:
        if checkpointed:
            lines += [f"for number, block in enumerate({name}{path}):", f"    {name}{path}[number] = fully_shard(checkpoint_wrapper(block){settings})"]
        else:
            lines += [f"for block in {name}{path}:", f"    fully_shard(block{settings})"]
    if sharding.library:
        lines += [f"for block in {name}.modules():", f"    if type(block).__name__ in ({name}._no_split_modules or ()):", f"        fully_shard(block{settings})"]
    lines.append(f"fully_shard({name}{settings})")
    if sharding.methods:
        author.need(source, "from torch.distributed.fsdp import register_fsdp_forward_method")
        lines += [f'register_fsdp_forward_method({name}, "{method}")' for method in sharding.methods]
    author.before(source, anchor, "\n".join(lines), above_comments=True)


def _settings(plan: Plan, author: Author, source: Source, anchor: cst.CSTNode) -> str:
    settings = ""
    if plan.options.replicas > 1:
        settings += ", mesh=mesh"
    if plan.half_precision == "bfloat16":
        settings += ", mp_policy=mixed"
    if plan.options.cpu_offload:
        author.need(source, "from torch.distributed.fsdp import CPUOffloadPolicy")
        settings += ", offload_policy=CPUOffloadPolicy()"
    return settings


def _setup(plan: Plan, author: Author, source: Source) -> list[str]:
    lines = []
    if plan.options.replicas > 1:
        author.need(source, "from torch.distributed.device_mesh import init_device_mesh")
        device = '"cpu"' if plan.device == "cpu" else '"cuda"' if plan.device == "cuda" else f'"cuda" if {plan.torch(author, source)}.cuda.is_available() else "cpu"'
        shape = f"({plan.options.replicas}, {plan.dist(author, source)}.get_world_size() // {plan.options.replicas})"
        lines.append(f'mesh = init_device_mesh({device}, {shape}, mesh_dim_names=("replicate", "shard"))')
    if plan.half_precision == "bfloat16":
        author.need(source, "from torch.distributed.fsdp import MixedPrecisionPolicy")
        torch = plan.torch(author, source)
        lines.append(f"mixed = MixedPrecisionPolicy(param_dtype={torch}.bfloat16, reduce_dtype={torch}.float32)")
    return lines
