"""Optimizer steps, losses and the inputs of the trained model."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from scaffold.verify.recorder import Recorder
from scaffold.verify.watch import names
from scaffold.verify.watch.sketch import norms, projections, rows, sketch, tensors, whole

MANY = 300  # parameters up to which each one's norm is taken
ROUNDING = 1e-6  # of the whole gradient's norm: below it, float32 gradients are rounding errors


class Stopped(BaseException):
    """The wanted number of optimizer steps is done. Not an ``Exception``: scripts must not swallow it."""


class _Watch:
    """The state of this process. One instance: hooks pickled with a model must be plain functions."""

    recorder: Recorder
    optimizers: list[torch.optim.Optimizer]
    hooked: set[int]
    by_hand: list[nn.Module]
    dropped: bool
    gathered: dict[str, torch.Tensor] | None = None


_watch = _Watch()


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def note_inputs(module: nn.Module, args: Any, kwargs: Any) -> None:
    """A forward pre-hook of the trained model: checksums of the rows it trains on."""
    if not (module.training and torch.is_grad_enabled()):
        return
    batch = next((t for t in tensors((args, kwargs)) if t.dim() > 0), None)
    if batch is not None:
        _watch.recorder.write("rows", model=type(module).__name__, crc=rows(batch), proj=projections(batch))


def _hook(parameters: list[torch.Tensor]) -> None:
    for module in names.owners(parameters):
        if id(module) not in _watch.hooked:
            _watch.hooked.add(id(module))
            module.register_forward_pre_hook(note_inputs, with_kwargs=True)


def _describe(index: int, parameters: list[torch.Tensor]) -> None:
    known = names.names(parameters)
    _watch.recorder.write(
        "params",
        opt=index,
        names=[known.get(id(p), f"parameter {i}") for i, p in enumerate(parameters)],
        shapes=[list(p.shape) for p in parameters],
        start=sketch(parameters),
    )


def _gradients(parameters: list[torch.Tensor]) -> dict[str, Any]:
    present = [p.grad for p in parameters if p.grad is not None]
    seen = sketch(present)
    seen["missing"] = len(parameters) - len(present)
    seen["norms"] = norms(present) if len(present) == len(parameters) <= MANY else []
    return seen


def _drop_rounding(parameters: list[torch.Tensor]) -> None:
    """Zero the gradients that are rounding errors alone, as those of a bias before BatchNorm.

    Optimizers that scale each gradient (Adam) would make of them steps as large as any other.
    """
    present = [p.grad for p in parameters if p.grad is not None]
    if len(present) > MANY or any(g.is_sparse for g in present):
        return
    sizes = norms(present)
    total = math.sqrt(sum(size * size for size in sizes))
    for gradient, size in zip(present, sizes, strict=True):
        if 0 < size < ROUNDING * total:
            gradient.zero_()
            if not _watch.dropped:
                _watch.dropped = True
                _watch.recorder.write("source", kind="rounding", place="")


def _step_done(index: int, parameters: list[torch.Tensor], rates: list[float], gradient: Any) -> None:
    recorder = _watch.recorder
    recorder.write("step", opt=index, lr=rates, grad=gradient, param=sketch(parameters))
    recorder.steps += 1
    limit = recorder.plan.steps
    if limit is not None and recorder.steps >= limit:
        raise Stopped


def _watch_optimizers() -> None:
    init = torch.optim.Optimizer.__init__
    pending: dict[int, Any] = {}

    def created(self: Any, params: Any, defaults: Any) -> None:
        init(self, params, defaults)
        if _watch.recorder.owns():
            _watch.optimizers.append(self)
            _hook(_parameters(self))

    def before(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        parameters = _parameters(optimizer)
        index = _index(optimizer)
        if index not in pending:
            _describe(index, parameters)
            _hook(parameters)
        _drop_rounding(parameters)
        pending[index] = _gradients(parameters)

    def after(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        index = _index(optimizer)
        parameters = _parameters(optimizer)
        gradient = pending[index]
        if gradient["missing"] == len(parameters):
            gradient = _gradients(parameters)
        rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
        _step_done(index, parameters, rates, gradient)

    optim: Any = torch.optim.Optimizer
    optim.__init__ = created
    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)


def _index(optimizer: torch.optim.Optimizer) -> int:
    for index, known in enumerate(_watch.optimizers):
        if known is optimizer:
            return index
    _watch.optimizers.append(optimizer)
    return len(_watch.optimizers) - 1


def _update_by_hand() -> None:
    """Scripts without an optimizer: each backward counts as a step of all modules with gradients."""
    recorder = _watch.recorder
    if not _watch.by_hand:
        modules = [names.bare(root) for root in names.roots()]
        _watch.by_hand = [m for m in modules if any(p.grad is not None for p in m.parameters())]
        _describe(0, _by_hand())
    parameters = _by_hand()
    if parameters and recorder.owns():
        _step_done(0, parameters, [], _gradients(parameters))


def _by_hand() -> list[torch.Tensor]:
    return [p for module in _watch.by_hand for p in module.parameters()]


def _watch_backward() -> None:
    plain: Any = torch.Tensor.backward

    inside = [False]

    def backward(self: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        if inside[0]:  # a torch function mode calls it again
            plain(self, *args, **kwargs)
            return
        recorder = _watch.recorder
        loss = float(self.detach()) if self.numel() == 1 else None
        recorder.write("enter", kind="backward", loss=loss, place=recorder.place())
        inside[0] = True
        try:
            plain(self, *args, **kwargs)
        finally:
            inside[0] = False
            recorder.write("leave", kind="backward")
        if not _watch.optimizers:
            _update_by_hand()

    tensor: Any = torch.Tensor
    tensor.backward = backward


def final() -> dict[str, torch.Tensor]:
    """What the optimizers hold now, and the buffers of the modules that hold it."""
    if _watch.gathered is not None:
        return _watch.gathered
    state: dict[str, torch.Tensor] = {}
    groups = [_parameters(optimizer) for optimizer in _watch.optimizers] or [_by_hand()]
    for index, parameters in enumerate(groups):
        known = names.names(parameters)
        for i, parameter in enumerate(parameters):
            name = known.get(id(parameter), f"parameter {i}")
            state[f"{index}|{i}|{name}"] = whole(parameter).to("cpu").clone()
    return state


def gather_shards() -> None:
    """Keep the whole of what is sharded, while there is a process group to gather it with."""
    if any(hasattr(p, "full_tensor") for optimizer in _watch.optimizers for p in _parameters(optimizer)):
        _watch.gathered = final()


def install(recorder: Recorder) -> None:
    """Watch every optimizer and every backward pass of this process."""
    _watch.recorder = recorder
    _watch.optimizers, _watch.hooked, _watch.by_hand, _watch.dropped = [], set(), [], False
    _watch_optimizers()
    _watch_backward()
