"""``torch.compile`` left out: it changes no result, costs minutes on a CPU, and seconds of import a process."""

from __future__ import annotations

import sys
from functools import wraps
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel


def _uncompiled(model: Any = None, **kwargs: Any) -> Any:
    return (lambda function: function) if model is None else model


def _without_import(init: Any) -> Any:
    """DDP's constructor asks the compiler for an option; answer with the default, without loading it."""
    options = SimpleNamespace(utils=SimpleNamespace(get_optimize_ddp_mode=lambda: "ddp_optimizer"))

    @wraps(init)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        if "torch._dynamo" in sys.modules:
            init(self, *args, **kwargs)
            return
        torch.__dict__["_dynamo"] = options
        try:
            init(self, *args, **kwargs)
        finally:
            if torch.__dict__.get("_dynamo") is options:
                del torch.__dict__["_dynamo"]

    return wrapped


def install() -> None:
    """Make ``torch.compile`` return its argument, and keep torch's own classes from loading the compiler."""
    for owner, name, value in (
        (torch, "compile", _uncompiled),
        (torch.nn.Module, "compile", lambda self, *args, **kwargs: None),
    ):
        setattr(owner, name, value)
    ddp: Any = DistributedDataParallel
    ddp.__init__ = _without_import(ddp.__init__)
    for cls in (torch.optim.Optimizer, DistributedDataParallel):
        for function in vars(cls).values():
            plain = getattr(function, "__wrapped__", None)
            code = getattr(function, "__code__", None)
            if plain is not None and code is not None and code.co_filename.endswith("_compile.py"):
                setattr(plain, "__dynamo_disable", plain)  # noqa: B010
