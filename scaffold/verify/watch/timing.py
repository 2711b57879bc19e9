"""The time of optimizer steps and little else, so that the watch costs next to nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from scaffold.verify.recorder import Recorder
from scaffold.verify.watch import comm, names
from scaffold.verify.watch.optim import Stopped
from scaffold.verify.watch.sketch import tensors


class _Timer:
    """Counts the steps of the first optimizer that steps, and what its model was given since the last one."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.optimizer: Any = None
        self.rows = self.elements = 0
        self.marks: list[Any] = []

    def given(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """A forward pre-hook: rows and elements of the first tensor."""
        if module.training and torch.is_grad_enabled():
            batch = next((t for t in tensors((args, kwargs)) if t.dim() > 0), None)
            if batch is not None:
                self.rows += batch.shape[0]
                self.elements += batch.numel()

    def before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.optimizer is None:
            self.optimizer = optimizer
            for module in names.owners(_parameters(optimizer))[:1]:
                module.register_forward_pre_hook(self.given, with_kwargs=True)

    def after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if optimizer is self.optimizer and self.recorder.owns():
            self.step([p.grad for p in _parameters(optimizer) if p.grad is not None])

    def step(self, gradients: list[torch.Tensor]) -> None:
        """Note that a step is done; end the run after the last one that is wanted."""
        recorder = self.recorder
        sizes = {"rows": self.rows, "elements": self.elements}
        if recorder.steps == 0:
            sizes["gradients"] = sum(g.numel() * g.element_size() for g in gradients)
            sizes["sharded"] = any(hasattr(g, "to_local") for g in gradients)
        if torch.cuda.is_available() and not recorder.plan.cuda_on_cpu:
            mark: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            mark.record()
            self.marks.append(mark)
        recorder.write("step", group=comm.initialised(), **sizes)
        recorder.steps += 1
        self.rows = self.elements = 0
        limit = recorder.plan.steps
        if limit is not None and recorder.steps >= limit:
            raise Stopped

    def flush(self) -> None:
        """Write the times that the GPU took, in seconds since the first step: the script runs ahead of it."""
        if self.marks:
            torch.cuda.synchronize()
            first = self.marks[0]
            self.recorder.write("gpu-times", seconds=[first.elapsed_time(mark) / 1000 for mark in self.marks])


def _parameters(optimizer: Any) -> list[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _by_hand(timer: _Timer) -> None:
    """Scripts without an optimizer: each backward counts as a step."""
    plain: Any = torch.Tensor.backward

    def backward(self: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        if not made and timer.recorder.owns():
            timer.step([p.grad for root in names.roots() for p in root.parameters() if p.grad is not None])

    init = torch.optim.Optimizer.__init__
    made: list[bool] = []

    def created(self: Any, params: Any, defaults: Any) -> None:
        made.append(True)
        init(self, params, defaults)

    tensor: Any = torch.Tensor
    tensor.backward = backward
    optimizer: Any = torch.optim.Optimizer
    optimizer.__init__ = created


def install(recorder: Recorder) -> _Timer:
    """Time every optimizer step of this process."""
    timer = _Timer(recorder)
    register_optimizer_step_pre_hook(timer.before)
    register_optimizer_step_post_hook(timer.after)
    _by_hand(timer)
    return timer
