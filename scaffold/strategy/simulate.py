"""Runs sliced code without data: counts a model's parameters, and simulates one training step of it. A program of its own.

    python -m scaffold.strategy.simulate PLAN.json RESULT.json [ARGUMENTS]

Tensors are fake (``FakeTensorMode``): they have shapes and no memory. What CUDA would run takes the place of what the CPU runs:
attention keeps its inputs and a log-sum-exp instead of the attention matrix, dropout a mask of one byte an element. The script's
prints go nowhere, there is no network, and memory and time are limited by the caller.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import socket
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from scaffold.strategy.slicing import TARGET

LEAVES = 64
ROUNDED = 512
"""Bytes to whose multiple CUDA's caching allocator rounds each request."""
REAL = 50_000_000
"""Parameters up to which a step that cannot be simulated is run on the CPU."""


def main(plan_file: str, result_file: str, arguments: list[str]) -> None:
    """Do what the plan says; write the result or the error."""
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    resource.setrlimit(resource.RLIMIT_AS, (plan["memory"], plan["memory"]))
    sys.argv = [plan["script"], *arguments]
    sys.path.insert(0, str(Path(plan["script"]).parent))
    _offline()
    try:
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            result = _batch(plan) if plan["wanted"] == "batch" else _model(plan)
    except SystemExit as error:
        result = {"error": f"the script ended while it built the model (exit status {error.code}); give its arguments after --"}
    except BaseException as error:
        result = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
    Path(result_file).write_text(json.dumps(result), encoding="utf-8")


def _offline() -> None:
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
    connect = socket.socket.connect

    def local_only(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX:
            raise OSError("no network while a model is counted")
        connect(self, address)

    setattr(socket.socket, "connect", local_only)  # noqa: B010


def _build(plan: dict[str, Any]) -> Any:
    scope: dict[str, Any] = {"__name__": "scaffold_slice", "__file__": plan["script"]}
    exec(compile(plan["code"], "slice", "exec"), scope)
    return scope[TARGET]


# ---- one batch of the script's loader ------------------------------------------------------------------------------


def _batch(plan: dict[str, Any]) -> dict[str, Any]:
    batch = next(iter(_build(plan)))
    if isinstance(batch, dict):
        return {"named": {k: _spec(v) for k, v in batch.items() if isinstance(v, torch.Tensor)}}
    listed = batch if isinstance(batch, (list, tuple)) else [batch]
    return {"listed": [_spec(v) for v in listed if isinstance(v, torch.Tensor)]}


def _spec(tensor: torch.Tensor) -> list[Any]:
    return [list(tensor.shape), str(tensor.dtype).removeprefix("torch.")]


# ---- the model -----------------------------------------------------------------------------------------------------


def _model(plan: dict[str, Any]) -> dict[str, Any]:
    with _without_weights(plan["code"]):
        model = _sized(plan)
        if not isinstance(model, nn.Module):
            return {"error": f"the code builds a {type(model).__name__}, no nn.Module"}
        result = _counted(model)
        if plan["inputs"]:
            try:
                with FakeTensorMode(allow_non_fake_inputs=True):
                    result |= _simulated(plan)
            except Exception as error:
                if result["parameters"] > REAL:
                    return {**result, "not_simulated": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
                result |= _really(plan)
    return result


def _sized(plan: dict[str, Any]) -> Any:
    """The model without memory, or with it where the code that builds it reads values of tensors (a vocabulary of the data)."""
    try:
        with torch.device("meta"):
            return _build(plan)
    except (RuntimeError, NotImplementedError):
        return _build(plan)


def _simulated(plan: dict[str, Any]) -> dict[str, Any]:
    model = _build(plan)
    result = {"activations": _step(model, plan)}
    blocks = _blocks(model)
    if blocks:
        result["checkpointed"] = _step(_checkpointing(model, blocks), plan)
    return result


def _really(plan: dict[str, Any]) -> dict[str, Any]:
    """The same with real tensors, for small models whose code looks at values."""
    try:
        return _simulated(plan)
    except Exception as error:
        return {"not_simulated": f"{type(error).__name__}: {error}".splitlines()[0][:300]}


@contextlib.contextmanager
def _without_weights(code: str) -> Iterator[None]:
    """Moves and loads change nothing but the dtype; models by name are built from their configuration."""
    module: Any = nn.Module
    kept = {name: getattr(module, name) for name in ("to", "cuda", "load_state_dict")}

    def to(self: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
        dtype = kwargs.get("dtype", next((a for a in args if isinstance(a, torch.dtype)), None))
        apply: Any = self._apply
        return self if dtype is None else apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    module.to, module.cuda, module.load_state_dict = to, lambda self, *a: self, lambda self, *a, **k: None
    torch.hub.load_state_dict_from_url = lambda *a, **k: {}
    if "transformers" in code:
        _from_configurations()
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(module, name, value)


def _from_configurations() -> None:
    transformers: Any = importlib.import_module("transformers")
    automatic_class: Any = importlib.import_module("transformers.models.auto.auto_factory")._BaseAutoModelClass

    def automatic(cls: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return cls.from_config(transformers.AutoConfig.from_pretrained(name, local_files_only=True))

    def plain(cls: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return cls(kwargs.get("config") or cls.config_class.from_pretrained(name, local_files_only=True))

    automatic_class.from_pretrained = classmethod(automatic)
    transformers.PreTrainedModel.from_pretrained = classmethod(plain)


def _counted(model: nn.Module) -> dict[str, Any]:
    parameters = {id(p): p for p in model.parameters()}.values()
    blocks = _blocks(model)
    sizes = [sum(p.numel() for p in block.parameters()) for _, block in blocks]
    return {
        "class": type(model).__name__,
        "parameters": sum(p.numel() for p in parameters),
        "trainable": sum(p.numel() for p in parameters if p.requires_grad),
        "bytes": sum(p.numel() * p.element_size() for p in parameters),
        "buffers": sum(b.numel() * b.element_size() for b in {id(b): b for b in model.buffers()}.values()),
        "blocks": [type(blocks[0][1]).__name__, len(blocks)] if blocks else None,
        "largest": max(sizes, default=None),
    }


def _blocks(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The instances of the class of which several hold most of the parameters, with their paths."""
    groups: dict[type, list[tuple[str, nn.Module]]] = {}
    for path, module in model.named_modules():
        if path and next(module.children(), None) is not None and not isinstance(module, (nn.ModuleList, nn.ModuleDict, nn.Sequential)):
            if not any(path.startswith(f"{outer}.") for outer, _ in groups.get(type(module), [])):
                groups.setdefault(type(module), []).append((path, module))
    several = [group for group in groups.values() if len(group) > 1]
    return max(several, key=lambda group: sum(p.numel() for _, m in group for p in m.parameters()), default=[])


def _checkpointing(model: nn.Module, blocks: list[tuple[str, nn.Module]]) -> nn.Module:
    from torch.utils.checkpoint import checkpoint

    for _, block in blocks:
        plain = block.forward

        def again(*args: Any, plain: Any = plain, **kwargs: Any) -> Any:
            return checkpoint(plain, *args, use_reentrant=False, **kwargs)

        setattr(block, "forward", again)  # noqa: B010
    return model


# ---- one step ------------------------------------------------------------------------------------------------------


Curve = list[tuple[int, int]]
"""``(activations, gradients)`` in bytes: the most activations in the forward pass, then until each gradient was done."""


def _step(model: nn.Module, plan: dict[str, Any]) -> Curve:
    """What one forward and backward need beyond parameters and buffers."""
    inputs = [_tensor(spec) for spec in plan["inputs"].get("listed", [])]
    words = {key: _tensor(spec) for key, spec in plan["inputs"].get("named", {}).items()}
    model.train()
    with _as_on_cuda():
        tracker = _Tracker([*model.parameters(), *model.buffers()])
        trained: list[Any] = [p for p in model.parameters() if p.requires_grad]
        hooks = [p.register_post_accumulate_grad_hook(tracker.done) for p in trained]
        with tracker:
            _run(model, inputs, words, plan["precision"], tracker)
        for hook in hooks:
            hook.remove()
    model.zero_grad(set_to_none=True)
    return tracker.curve()


class _Tracker(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Bytes of the storages that are alive, as CUDA's caching allocator rounds them.

    Those known at the start are left out, and so are autocast's copies of them, which have a line of their own.
    """

    def __init__(self, known: list[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known = known
        self.restart()

    def restart(self) -> None:
        self.seen: Any = WeakIdKeyDictionary()
        for tensor in self.known:
            self.seen[tensor.untyped_storage()] = 0
        self.live = self.gradients = self.most = 0
        self.points: Curve = []

    def done(self, parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        self.points.append((self.most, self.gradients))
        self.gradients += parameter.grad.numel() * parameter.grad.element_size()
        self.most = self.live - self.gradients

    def forward_done(self) -> None:
        self.points.append((self.most, 0))
        self.most = self.live

    def curve(self) -> Curve:
        return [*self.points, (self.most, self.gradients)]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and self.seen.get(args[0].untyped_storage()) == 0:
            self.seen[result.untyped_storage()] = 0
            return result
        for value in result if isinstance(result, (list, tuple)) else [result]:
            if isinstance(value, torch.Tensor):
                self._note(value.untyped_storage())
        return result

    def _note(self, storage: torch.UntypedStorage) -> None:
        if storage in self.seen:
            return
        size = -(-storage.nbytes() // ROUNDED) * ROUNDED
        self.seen[storage] = size
        self.live += size
        self.most = max(self.most, self.live - self.gradients)
        weakref.finalize(storage, self._freed, size, self.seen)

    def _freed(self, size: int, counted_in: Any) -> None:
        if counted_in is self.seen:
            self.live -= size


def _tensor(spec: list[Any]) -> torch.Tensor:
    shape, dtype = spec
    kind = getattr(torch, dtype)
    return torch.zeros(shape, dtype=kind) if not kind.is_floating_point else torch.randn(shape, dtype=kind)


def _run(model: nn.Module, inputs: list[torch.Tensor], words: dict[str, torch.Tensor], precision: str, tracker: _Tracker) -> None:
    """One forward and backward, with as many of the inputs as the model takes."""
    listed = inputs or list(words.values())
    ways: list[tuple[list[torch.Tensor], dict[str, torch.Tensor]]] = [([], words)] if words else []
    ways += [(listed[:count], {}) for count in range(1, len(listed) + 1)]
    for number, (given, named) in enumerate(ways):
        half = torch.autocast("cpu", torch.bfloat16) if precision == "autocast" else contextlib.nullcontext()
        try:
            with half:
                loss: Any = _loss(model(*given, **named))
        except (TypeError, ValueError):
            if number + 1 == len(ways):
                raise
            tracker.restart()
            continue
        tracker.forward_done()
        loss.backward()
        return


def _loss(output: Any) -> torch.Tensor:
    found = [t for t in _leaves(output) if t.is_floating_point() and t.requires_grad]
    if not found:
        raise TypeError("the model's output holds no real numbers to differentiate")
    scalar = next((t for t in found if t.dim() == 0), None)
    if scalar is not None:
        return scalar
    return sum((_score(t) for t in found), torch.zeros(()))


def _score(tensor: torch.Tensor) -> torch.Tensor:
    """A loss over an output: the log-softmax of cross entropy where it has classes."""
    real = tensor.float()
    return real.log_softmax(-1).mean() if tensor.dim() > 1 and tensor.shape[-1] > 1 else real.mean()


def _leaves(value: Any, depth: int = 0) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if hasattr(value, "items") and depth < 4:
        return [t for v in list(value.values())[:LEAVES] for t in _leaves(v, depth + 1)]
    if isinstance(value, (list, tuple)) and depth < 4:
        return [t for v in value[:LEAVES] for t in _leaves(v, depth + 1)]
    return []


class _Flash(torch.autograd.Function):
    """Attention as a fused kernel does it: what is kept are query, key, value, output and one number a row."""

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        output = query.new_empty((*query.shape[:-1], value.shape[-1]))
        rows = query.new_empty(query.shape[:-1], dtype=torch.float32)
        ctx.save_for_backward(query, key, value, output, rows)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, ...]:
        query, key, value, _, _ = ctx.saved_tensors
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


class _Dropout(torch.autograd.Function):
    """Dropout as CUDA does it: a mask of one byte an element is kept."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
        mask = torch.empty_like(values, dtype=torch.bool)
        ctx.save_for_backward(mask)
        return values * mask

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        mask: torch.Tensor = ctx.saved_tensors[0]
        return gradients[0] * mask


@contextlib.contextmanager
def _as_on_cuda() -> Iterator[None]:
    functional: Any = torch.nn.functional
    flash: Any = _Flash
    mask: Any = _Dropout
    kept = functional.scaled_dot_product_attention, functional.dropout

    def attention(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        return flash.apply(query, key, value)

    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return mask.apply(input) if training and p > 0 else input

    functional.scaled_dot_product_attention, functional.dropout = attention, dropout
    try:
        yield
    finally:
        functional.scaled_dot_product_attention, functional.dropout = kept


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
