"""The names of parameters, found from the modules alive in the process."""

from __future__ import annotations

import gc
from collections.abc import Iterable

import torch
from torch import nn

WRAPPERS = ("DistributedDataParallel", "DataParallel", "OptimizedModule", "FullyShardedDataParallel")


def roots() -> list[nn.Module]:
    """The modules that are no other module's child."""
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), nn.Module)]
    children = {id(child) for module in modules for child in module._modules.values() if child is not None}
    return [module for module in modules if id(module) not in children]


def bare(module: nn.Module) -> nn.Module:
    """The user's module inside DDP, DataParallel or ``torch.compile``."""
    while type(module).__name__ in WRAPPERS:
        inner = getattr(module, "_orig_mod", None) or getattr(module, "module", None)
        if inner is None:
            break
        module = inner
    return module


def owners(parameters: Iterable[torch.Tensor]) -> list[nn.Module]:
    """The outermost bare modules that hold any of these parameters."""
    wanted = {id(parameter) for parameter in parameters}
    found = [bare(root) for root in roots()]
    return [module for module in found if any(id(p) in wanted for p in module.parameters())]


def names(parameters: Iterable[torch.Tensor]) -> dict[int, str]:
    """``id(parameter)`` to its name in its module, wrappers left out."""
    listed = list(parameters)
    return {id(p): name for module in owners(listed) for name, p in module.named_parameters()}
