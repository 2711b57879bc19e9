"""Run code written for CUDA on the CPU: devices are mapped, ``torch.cuda`` answers as if it had N GPUs.

The scripts are not edited. Mixed precision is off, so that the runs can be compared to float tolerance.
"""

from __future__ import annotations

import contextlib
import os
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

CPU = torch.device("cpu")


def is_cuda(value: Any) -> bool:
    """Whether a value names a CUDA device: ``"cuda"``, ``"cuda:0"`` or a ``torch.device``."""
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and value.startswith("cuda")


def to_cpu(value: Any) -> Any:
    """The CPU in place of a CUDA device; every other value unchanged."""
    return CPU if is_cuda(value) else value


class CudaOnCpu(TorchFunctionMode):
    """Maps CUDA devices to the CPU in every torch call, ``.cuda()`` and ``.to("cuda")`` included."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.to and len(args) > 1:
            second = args[1]
            if type(second) is int:
                second = CPU
            args = (args[0], to_cpu(second), *args[2:])
        elif func is torch.Tensor.cuda or func is torch.Tensor.pin_memory:
            return args[0]
        elif func is torch.set_default_device:
            args = tuple(to_cpu(value) for value in args)
        if kwargs:
            device = kwargs.get("device")
            if device is not None and (type(device) is int or is_cuda(device)):
                kwargs = {**kwargs, "device": CPU}
            return func(*args, **kwargs)
        return func(*args)


class _CpuGenerator(torch.Generator):
    def __new__(cls, device: Any = "cpu") -> _CpuGenerator:
        made: _CpuGenerator = super().__new__(cls, "cpu")  # type: ignore[call-arg]
        return made


class _Nothing:
    """A stream, an event or a context: takes everything, does nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *error: Any) -> None: ...

    def elapsed_time(self, other: Any) -> float:
        return 1.0

    def query(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


def _answer(value: Any) -> Any:
    """A new function each time: torch's compiler wants every function of ``torch.cuda`` to be its own."""
    return lambda *args, **kwargs: value


class _Devices:
    """The answers of a machine with ``count`` GPUs."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.current = 0

    def set_device(self, device: Any) -> None:
        index = device if isinstance(device, int) else torch.device(device).index
        index = index or 0
        if index >= self.count:
            raise RuntimeError(f"CUDA error: invalid device ordinal ({index} of {self.count})")
        self.current = index

    def properties(self, device: Any = None) -> SimpleNamespace:
        return SimpleNamespace(name="CPU", major=8, minor=0, total_memory=80 << 30, multi_processor_count=1)

    def functions(self) -> dict[str, Any]:
        answers: dict[str, Any] = {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "device_count": lambda: self.count,
            "set_device": self.set_device,
            "current_device": lambda: self.current,
            "get_device_name": lambda device=None: "CPU",
            "get_device_properties": self.properties,
            "get_device_capability": lambda device=None: (8, 0),
            "is_bf16_supported": lambda *a, **k: True,
            "mem_get_info": lambda device=None: (80 << 30, 80 << 30),
            "memory_stats": lambda device=None: {},
            "memory_summary": lambda *a, **k: "",
            "can_device_access_peer": lambda *a: True,
            "get_rng_state": lambda device=None: torch.get_rng_state(),
            "get_rng_state_all": lambda: [torch.get_rng_state() for _ in range(self.count)],
            "current_stream": _Nothing,
            "default_stream": _Nothing,
            "stream": _Nothing,
            "Stream": _Nothing,
            "Event": _Nothing,
            "device": _Nothing,
        }
        for name in (
            "memory_allocated",
            "max_memory_allocated",
            "memory_reserved",
            "max_memory_reserved",
            "initial_seed",
            "utilization",
        ):
            answers[name] = _answer(0)
        for name in (
            "synchronize",
            "empty_cache",
            "manual_seed",
            "manual_seed_all",
            "seed",
            "seed_all",
            "init",
            "reset_peak_memory_stats",
            "reset_max_memory_allocated",
            "ipc_collect",
            "set_rng_state",
            "set_rng_state_all",
            "set_stream",
            "set_per_process_memory_fraction",
        ):
            answers[name] = _answer(None)
        return answers


def _load_on_cpu(load: Any) -> Any:
    def wrapped(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not callable(map_location):
            map_location = CPU
        return load(f, map_location, *args, **kwargs)

    return wrapped


def _disabled(init: Any) -> Any:
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, "cpu", enabled=False)

    return wrapped


def _one_device(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
    """``nn.DataParallel`` over no GPU calls its module as it is."""
    torch.nn.Module.__init__(self)
    self.module, self.device_ids = module, []


def _call_module(module: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    return module(*inputs) if isinstance(inputs, tuple) else module(inputs)


def install(count: int) -> CudaOnCpu:
    """Patch torch in this process to answer as if it had ``count`` GPUs. Returns the mode, to be entered."""
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    for name, function in _Devices(count).functions().items():
        setattr(torch.cuda, name, function)
    for kind in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Byte", "Char", "Bool"):
        with contextlib.suppress(AttributeError):
            setattr(torch.cuda, f"{kind}Tensor", getattr(torch, f"{kind}Tensor"))
    patches: list[tuple[Any, str, Any]] = [
        (torch, "Generator", _CpuGenerator),
        (torch, "load", _load_on_cpu(torch.load)),
        (torch.nn.DataParallel, "__init__", _one_device),
        (torch.nn.parallel, "data_parallel", _call_module),
        (torch.amp.GradScaler, "__init__", _disabled(torch.amp.GradScaler.__init__)),
        (torch.amp.autocast_mode.autocast, "__init__", _disabled(torch.amp.autocast_mode.autocast.__init__)),
    ]
    for owner, name, value in patches:
        setattr(owner, name, value)
    return CudaOnCpu()
