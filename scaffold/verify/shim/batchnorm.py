"""Batch statistics over all ranks on the CPU, as ``SyncBatchNorm`` takes them on GPUs."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable
import torch.nn.functional as F

from scaffold.verify.recorder import Recorder


def _synchronised(
    input: torch.Tensor, mean: Any, var: Any, weight: Any, bias: Any, momentum: float, eps: float
) -> torch.Tensor:
    dims = [0, *range(2, input.dim())]
    shape = [1, -1] + [1] * (input.dim() - 2)
    count = torch.full((1,), float(input.numel() // input.size(1)), dtype=input.dtype)
    totals: torch.Tensor = differentiable.all_reduce(  # type: ignore[no-untyped-call]
        torch.cat([input.sum(dims), (input * input).sum(dims), count])
    )
    channels, total = input.size(1), totals[-1].detach()
    average = totals[:channels] / total
    variance = (totals[channels:-1] / total - average * average).clamp_min(0)
    if mean is not None:
        with torch.no_grad():
            mean.lerp_(average.to(mean.dtype), momentum)
            var.lerp_((variance * total / (total - 1)).to(var.dtype), momentum)
    out = (input - average.view(shape)) * torch.rsqrt(variance + eps).view(shape)
    if weight is not None:
        out = out * weight.view(shape) + bias.view(shape)
    return out


def install(recorder: Recorder) -> None:
    """Patch ``F.batch_norm``: when several ranks train, the statistics are taken over all of them."""
    plain = F.batch_norm
    seen = False

    def batch_norm(
        input: Any,
        running_mean: Any,
        running_var: Any,
        weight: Any = None,
        bias: Any = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Any:
        nonlocal seen
        if training and torch.is_grad_enabled():
            if not seen:
                seen = True
                recorder.write("source", kind="BatchNorm", place=recorder.place())
            if recorder.plan.converted and dist.is_initialized() and dist.get_world_size() > 1:
                return _synchronised(input, running_mean, running_var, weight, bias, momentum, eps)
        return plain(input, running_mean, running_var, weight, bias, training, momentum, eps)

    functional: Any = F
    functional.batch_norm = batch_norm


def accept_cpu() -> None:
    """Let ``SyncBatchNorm`` take CPU tensors: it computes as BatchNorm, whose statistics are synchronised."""
    sync: Any = torch.nn.SyncBatchNorm
    sync.forward = torch.nn.modules.batchnorm._BatchNorm.forward
