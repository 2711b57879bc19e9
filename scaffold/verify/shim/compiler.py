"""``torch.compile`` left out: it changes no result and costs minutes on a CPU.

Optimizers and DDP import torch's compiler for calls that do nothing outside it (two seconds a process). A
stand-in answers these calls, and gives way to the real package as soon as anything else is asked of it.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

NAME = "torch._dynamo"


class _StandIn(types.ModuleType):
    """The few functions that torch calls while nothing is compiled."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self.__path__: list[str] = []
        self.graph_break = lambda *args, **kwargs: None
        self.trace_rules = types.SimpleNamespace(clear_lru_cache=lambda: None)
        self.utils = types.SimpleNamespace(get_optimize_ddp_mode=lambda: "ddp_optimizer")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_real(), name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds submodules of the compiler: loads the real package first."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith(NAME + ".") or not isinstance(sys.modules.get(NAME), _StandIn):
            return None
        return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        _real()
        return importlib.import_module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None: ...


def _real() -> types.ModuleType:
    """The real package, in the place of the stand-in."""
    if isinstance(sys.modules.get(NAME), _StandIn):
        del sys.modules[NAME]
        torch.__dict__.pop("_dynamo", None)
    return importlib.import_module(NAME)


def _uncompiled(model: Any = None, **kwargs: Any) -> Any:
    return (lambda function: function) if model is None else model


def install() -> None:
    """Make ``torch.compile`` return its argument, and keep torch's own classes from loading the compiler."""
    patches: tuple[tuple[Any, str, Any], ...] = (
        (torch, "compile", _uncompiled),
        (torch.nn.Module, "compile", lambda self, *args, **kwargs: None),
    )
    for owner, name, value in patches:
        setattr(owner, name, value)
    for cls in (torch.optim.Optimizer, DistributedDataParallel):
        for function in vars(cls).values():
            while (plain := getattr(function, "__wrapped__", None)) is not None:
                code = getattr(function, "__code__", None)
                if code is not None and code.co_filename.endswith("_compile.py"):
                    plain.__dict__["__dynamo_disable"] = plain
                function = plain
    if NAME not in sys.modules:
        stand_in = _StandIn()
        sys.modules[NAME] = stand_in
        torch.__dict__["_dynamo"] = stand_in
        sys.meta_path.insert(0, _Finder())
