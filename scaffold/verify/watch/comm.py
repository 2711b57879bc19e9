"""Collectives that the script calls, and the wrapping of its models."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel

from scaffold.verify.recorder import Recorder
from scaffold.verify.shim.distributed import patch_both
from scaffold.verify.watch import optim
from scaffold.verify.watch.sketch import tensors

COLLECTIVES = (
    "all_reduce", "broadcast", "reduce", "barrier", "monitored_barrier", "all_gather", "gather", "scatter",
    "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single",
    "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "send", "recv",
)  # fmt: skip


def _collective(name: str, function: Any, recorder: Recorder, depth: list[int]) -> Any:
    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if depth[0]:
            return function(*args, **kwargs)
        moved = list(tensors((args, kwargs)))
        size = sum(t.numel() * t.element_size() for t in moved)
        recorder.write("enter", kind=name, bytes=size, place=recorder.place())
        depth[0] += 1
        try:
            return function(*args, **kwargs)
        finally:
            depth[0] -= 1
            recorder.write("leave", kind=name)

    return wrapped


def _watch_wrapping(recorder: Recorder) -> None:
    ddp: Any = DistributedDataParallel
    init, forward = ddp.__init__, ddp.forward

    def created(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        recorder.write("enter", kind="DistributedDataParallel", place=recorder.place())
        init(self, module, *args, **kwargs)
        recorder.write("leave", kind="DistributedDataParallel")
        recorder.write("wrap", kind="DDP", model=type(module).__name__, unused=self.find_unused_parameters)

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.modules_buffers:
            return forward(self, *args, **kwargs)
        recorder.write("enter", kind="DDP forward", place=recorder.place())
        output = forward(self, *args, **kwargs)
        recorder.write("leave", kind="DDP forward")
        return output

    ddp.__init__, ddp.forward = created, called


def install(recorder: Recorder) -> None:
    """Watch ``torch.distributed`` and DDP."""
    depth = [0]
    for name in COLLECTIVES:
        if hasattr(c10d, name):
            patch_both(name, _collective(name, getattr(c10d, name), recorder, depth))
    for name in ("init_process_group", "destroy_process_group"):
        patch_both(name, _collective(name, getattr(c10d, name), recorder, depth))
    patch_both("destroy_process_group", _last_gathering(c10d.destroy_process_group))
    _watch_wrapping(recorder)
    _watch_sharding(recorder)


def _last_gathering(destroy: Any) -> Any:
    @wraps(destroy)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        optim.gather_shards()
        return destroy(*args, **kwargs)

    return wrapped


def _watch_sharding(recorder: Recorder) -> None:
    """FSDP2 is slow to import: it is only watched where the script names it."""
    if "fully_shard" not in recorder.plan.source():
        return
    import torch.distributed.fsdp as fsdp

    setattr(fsdp, "fully_shard", _sharded(fsdp.fully_shard, recorder))  # noqa: B010


def _sharded(function: Any, recorder: Recorder) -> Any:
    @wraps(function)
    def wrapped(module: Any, **kwargs: Any) -> Any:
        recorder.write("wrap", kind="FSDP2", model=type(module).__name__, unused=False)
        return function(module, **kwargs)

    return wrapped


def initialised() -> bool:
    """Whether a process group is still there."""
    return dist.is_available() and dist.is_initialized()
