"""Process groups meant for GPUs, on the CPU: NCCL becomes Gloo, device arguments are dropped."""

from __future__ import annotations

import time
from functools import wraps
from typing import Any

import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch.distributed import device_mesh
from torch.nn.parallel import DistributedDataParallel

from scaffold.verify.shim.cuda import is_cuda


def patch_both(name: str, value: Any) -> None:
    """Replace a function of ``torch.distributed`` for scripts and for torch's own calls."""
    for module in (dist, c10d):
        if hasattr(module, name):
            setattr(module, name, value)


def _gloo(function: Any) -> Any:
    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], str):
            args = ("gloo", *args[1:])
        elif "backend" in kwargs or function.__name__ == "init_process_group":
            kwargs["backend"] = "gloo"
        kwargs.pop("device_id", None)
        return function(*args, **kwargs)

    return wrapped


def _unhurried(destroy: Any) -> Any:
    """Gloo's threads need Python's lock to free their last work: a process that ends before them aborts or hangs."""

    @wraps(destroy)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        time.sleep(0.1)
        return destroy(*args, **kwargs)

    return wrapped


def _without_devices(function: Any) -> Any:
    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device_ids", None)
        return function(*args, **kwargs)

    return wrapped


def _average(function: Any) -> Any:
    """Gloo has no ``ReduceOp.AVG``: sum, then divide."""

    @wraps(function)
    def wrapped(tensor: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
        if op != dist.ReduceOp.AVG:
            return function(tensor, op=op, group=group, async_op=async_op)
        work = function(tensor, op=dist.ReduceOp.SUM, group=group, async_op=async_op)
        if work is not None:
            work.wait()
        tensor.div_(dist.get_world_size(group))
        return work

    return wrapped


def _ddp_init(init: Any) -> Any:
    @wraps(init)
    def wrapped(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        init(self, module, None, None, *args, **kwargs)

    return wrapped


def _mesh(function: Any) -> Any:
    @wraps(function)
    def wrapped(device_type: str, *args: Any, **kwargs: Any) -> Any:
        return function("cpu" if is_cuda(device_type) else device_type, *args, **kwargs)

    return wrapped


def _in_single_precision(shard: Any) -> Any:
    """``fully_shard`` without mixed precision, which the other runs on the CPU have not either, nor copies to the host."""

    @wraps(shard)
    def wrapped(module: Any, **kwargs: Any) -> Any:
        kwargs.pop("mp_policy", None)
        kwargs.pop("offload_policy", None)
        return shard(module, **kwargs)

    return wrapped


def install(source: str) -> None:
    """Patch ``torch.distributed`` and DDP in this process, and FSDP2, which is slow to import, where ``source`` names it."""
    if "fully_shard" in source:
        import torch.distributed.fsdp as fsdp

        setattr(fsdp, "fully_shard", _in_single_precision(fsdp.fully_shard))  # noqa: B010
    patch_both("init_process_group", _gloo(c10d.init_process_group))
    patch_both("new_group", _gloo(c10d.new_group))
    patch_both("destroy_process_group", _unhurried(c10d.destroy_process_group))
    patch_both("barrier", _without_devices(c10d.barrier))
    patch_both("all_reduce", _average(c10d.all_reduce))
    patch_both("is_nccl_available", lambda: True)
    ddp: Any = DistributedDataParallel
    ddp.__init__ = _ddp_init(ddp.__init__)
    ddp._passing_sync_batchnorm_handle = lambda self, module: None
    mesh = _mesh(device_mesh.init_device_mesh)
    targets: list[Any] = [device_mesh, dist]
    for module in targets:
        module.init_device_mesh = mesh
