"""Randomness by which right conversions differ: dropout is off, augmentation is fixed per sample.

The draws the script takes from torch's and NumPy's global generators are noted, so that a replay of the
original can take the union of the ranks' draws.
"""

from __future__ import annotations

import json
import random
import sys
import zlib
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.data import Subset, get_worker_info
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from scaffold.verify.recorder import WITHOUT_GRADIENTS, Recorder

DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
DRAWS = (
    "randint",
    "randn",
    "rand",
    "randperm",
    "randn_like",
    "rand_like",
    "normal",
    "bernoulli",
    "multinomial",
)
LOGGED = 1 << 21  # elements per run kept for a replay
SINGLE = 1 << 16  # elements from which a draw is taken for data, and not kept


def _rng_crc() -> int:
    return zlib.crc32(torch.get_rng_state().numpy().tobytes())


def _dropout_off(recorder: Recorder) -> None:
    noted = 0

    def patched(name: str, plain: Any) -> Any:
        def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
            nonlocal noted
            if training and p > 0 and torch.is_grad_enabled() and noted < 3:
                noted += 1
                recorder.write("source", kind="dropout", rng=_rng_crc(), place=recorder.place())
            return plain(input, 0.0, training, inplace)

        return dropout

    functional: Any = F
    for name in DROPOUTS:
        setattr(functional, name, patched(name, getattr(F, name)))
    attention = F.scaled_dot_product_attention

    def quiet(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        nonlocal noted
        if dropout_p > 0 and noted < 3:
            noted += 1
            recorder.write("source", kind="dropout", rng=_rng_crc(), place=recorder.place())
        return attention(query, key, value, attn_mask, 0.0, *args, **kwargs)

    functional.scaled_dot_product_attention = quiet
    rnn: Any = torch.nn.RNNBase
    init = rnn.__init__

    def without(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if self.dropout:
            recorder.write("source", kind="dropout", rng=None, place=recorder.place())
            self.dropout = 0.0

    rnn.__init__ = without


def _position() -> Any:
    """How far NumPy's global generator has been read."""
    import numpy as np

    state: Any = np.random.get_state()
    return state[2]


class _Fixed:
    """Seeds all generators with the sample's index for the time it is fetched, then puts them back."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.noted = False
        self.busy = False

    def sample(self, dataset: Any, index: Any) -> Any:
        import numpy as np

        torch_state, python_state, numpy_state = (
            torch.get_rng_state(),
            random.getstate(),
            np.random.get_state(),
        )
        seed = zlib.crc32(repr(index).encode())
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        before = None if self.noted else (torch.get_rng_state(), random.getstate(), _position())
        self.busy = True
        try:
            return dataset[index]
        finally:
            self.busy = False
            if before is not None and get_worker_info() is None:
                drawn = b""
                if not torch.equal(before[0], torch.get_rng_state()):
                    drawn += torch_state.numpy().tobytes()
                if before[1] != random.getstate():
                    drawn += repr(python_state).encode()
                if before[2] != _position():
                    drawn += repr(numpy_state).encode()
                if drawn:
                    self.noted = True
                    self.recorder.write("source", kind="augmentation", rng=zlib.crc32(drawn), place="dataset")
            torch.set_rng_state(torch_state)
            random.setstate(python_state)
            np.random.set_state(numpy_state)

    def install(self) -> None:
        fixed = self
        fetcher: Any = _MapDatasetFetcher
        plain = fetcher.fetch

        def fetch(self: Any, indices: Any) -> Any:
            dataset = self.dataset
            batched = getattr(type(dataset), "__getitems__", None) is not None and not isinstance(
                dataset, Subset
            )
            if batched or not self.auto_collation:
                return plain(self, indices)
            return self.collate_fn([fixed.sample(dataset, index) for index in indices])

        fetcher.fetch = fetch


class _Draws:
    """Notes draws from global generators, and replaces them in a replay; those that make a sample are fixed already."""

    def __init__(self, recorder: Recorder, samples: _Fixed) -> None:
        self.recorder = recorder
        self.samples = samples
        self.left = LOGGED
        self.file = recorder.folder / "draws.jsonl"
        self.count: dict[str, int] = {}
        self.replay: dict[str, list[Any]] = {}
        self.depth = 0
        if recorder.plan.replay:
            self.replay = json.loads(Path(recorder.plan.replay).read_text(encoding="utf-8"))["draws"]

    def wrap(self, owner: Any, name: str, kind: str) -> None:
        plain = getattr(owner, name)

        def drawn(*args: Any, **kwargs: Any) -> Any:
            if self.depth or self.samples.busy or kwargs.get("generator") is not None or not self.recorder.owns():
                return plain(*args, **kwargs)
            self.depth += 1
            try:
                result = plain(*args, **kwargs)
                caller = sys._getframe(1).f_code
                if not caller.co_filename.startswith(self.recorder.plan.root):
                    return result
                mode = "" if torch.is_grad_enabled() else WITHOUT_GRADIENTS
                return self.note(f"{kind}.{name} in {caller.co_name}{mode}", result)
            finally:
                self.depth -= 1

        setattr(owner, name, drawn)

    def note(self, key: str, result: Any) -> Any:
        number = self.count[key] = self.count.get(key, -1) + 1
        if self.recorder.plan.replay:
            return self.replayed(key, number, result)
        try:
            values = torch.as_tensor(result)
        except (TypeError, ValueError, RuntimeError):
            return result
        if values.numel() <= SINGLE and self.left > 0:
            self.left -= values.numel()
            line = {
                "key": key,
                "number": number,
                "shape": list(values.shape),
                "step": self.recorder.steps,
                "dtype": str(values.dtype),
                "values": values.reshape(-1).tolist(),
            }
            with self.file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
        return result

    def replayed(self, key: str, number: int, result: Any) -> Any:
        known = self.replay.get(key, [])
        taken = known[number] if number < len(known) else None
        if taken is None:
            return result
        values, shape = taken["values"], taken["shape"]
        if list(getattr(result, "shape", shape)) != list(shape):
            return result
        if isinstance(result, torch.Tensor):
            return torch.tensor(values, dtype=result.dtype).reshape(shape)
        if isinstance(result, list):
            return values
        import numpy as np

        return (
            np.asarray(values, dtype=result.dtype).reshape(shape)
            if isinstance(result, np.ndarray)
            else result
        )


def install(recorder: Recorder) -> None:
    """Take out or note the randomness of this process."""
    _dropout_off(recorder)
    torch.seed = torch.initial_seed  # a conversion that asks for a fresh common seed starts where the original does
    samples = _Fixed(recorder)
    samples.install()
    draws = _Draws(recorder, samples)
    for name in DRAWS:
        draws.wrap(torch, name, "torch")
    import numpy as np

    for name in ("randint", "rand", "randn", "choice", "permutation", "normal", "uniform"):
        draws.wrap(np.random, name, "numpy")
    draws.wrap(random, "sample", "random")
    draws.wrap(random, "choices", "random")
