"""Loaders: what each draws, the rank's share of a batch, and the order the original must take.

In the original, a shuffled loader draws as ``torch.utils.data.DistributedSampler`` does (seed 0 plus the
number of the pass, padded to a multiple of the ranks): its k-th batch is the ranks' k-th batches together.
A replay gives it the very batches that the ranks took.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, Subset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from scaffold.verify.plan import TrainLoader
from scaffold.verify.recorder import Recorder
from scaffold.verify.watch.sketch import rows, tensors

Batches = list[list[int]]


def base_indices(dataset: Any, indices: Any) -> tuple[Any, list[int]]:
    """The innermost dataset behind ``Subset``s, and the places of these samples in it."""
    listed = [int(i) for i in indices]
    while isinstance(dataset, Subset):
        listed = [int(dataset.indices[i]) for i in listed]
        dataset = dataset.dataset
    return dataset, listed


def _size(dataset: Any) -> int:
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return -1


def _positions(loader: Any, batches: Batches) -> Batches:
    """Batches of places in the innermost dataset, as indices of this loader's own dataset."""
    dataset = loader.dataset
    _, own = base_indices(dataset, range(len(dataset)))
    where = {place: i for i, place in enumerate(own)}
    return [[where[place] for place in batch if place in where] for batch in batches]



def _sampler(loader: Any) -> Any:
    """The sampler that decides the order: with a batch sampler of the script's own, the one inside it."""
    return getattr(loader.batch_sampler, "sampler", loader.batch_sampler) if loader.batch_sampler is not None else loader.sampler

class _Draw:
    """One pass over a loader's sampler: yields its batches and keeps those that are not consumed yet."""

    def __init__(self, source: Any, number: int) -> None:
        self.number = number
        self.ahead: deque[Any] = deque()
        self._source = source

    def __iter__(self) -> _Draw:
        return self

    def __next__(self) -> Any:
        batch = next(self._source)
        self.ahead.append(batch)
        return batch


class _Sampler:
    """Stands for a loader's batch sampler."""

    def __init__(self, loader: Any, inner: Any, watch: _Loaders) -> None:
        self.loader, self.inner, self.watch = loader, inner, watch

    def __len__(self) -> int:
        replay = self.watch.replay.get(self.loader.scaffold_order)
        return len(replay[min(self.loader.scaffold_passes, len(replay) - 1)]) if replay else len(self.inner)

    def __iter__(self) -> Iterator[Any]:
        return _Draw(self._batches(), self.loader.scaffold_passes)

    def _batches(self) -> Iterator[Any]:
        loader = self.loader
        number = loader.scaffold_passes
        loader.scaffold_passes += 1
        if loader.scaffold_order in self.watch.replay:
            next(iter(loader.sampler), None)
            passes = self.watch.replay[loader.scaffold_order]
            yield from _positions(loader, passes[number] if number < len(passes) else [])
        elif self.watch.orders(loader):
            next(iter(loader.sampler), None)
            yield from self._as_distributed(number)
        else:
            yield from self.inner

    def _as_distributed(self, number: int) -> Iterator[list[int]]:
        loader, world = self.loader, self.watch.recorder.plan.world
        n, size = len(loader.dataset), loader.batch_size
        order = torch.randperm(n, generator=torch.Generator().manual_seed(number)).tolist()
        order = order[: n - n % world] if loader.drop_last else (order * 2)[: n + -n % world]
        for start in range(0, len(order), size):
            batch = order[start : start + size]
            if len(batch) == size or not loader.drop_last:
                yield batch


class _Loaders:
    """All loaders of this process."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.count = 0
        self.replay: dict[int, list[Batches]] = {}
        if recorder.plan.replay:
            data = json.loads(Path(recorder.plan.replay).read_text(encoding="utf-8"))
            self.replay = {int(order): passes for order, passes in data["loaders"].items()}

    def orders(self, loader: Any) -> bool:
        """Whether this loader of the original draws in the order of a ``DistributedSampler``."""
        sampler = loader.sampler
        return (
            not self.recorder.plan.converted
            and type(sampler) is RandomSampler
            and not sampler.replacement
            and sampler.num_samples == len(loader.dataset)
            and type(loader.batch_sampler) is BatchSampler
        )

    def share(self, loader: Any, order: int, samples: int) -> int | None:
        """The batch size that makes the ranks' batches together the original's, or ``None`` to keep it."""
        wanted: list[TrainLoader] = [t for t in self.recorder.plan.share if t.samples == samples]
        exact = [t for t in wanted if t.order == order] or wanted
        if not exact:
            exact = [t for t in self.recorder.plan.share if t.order == order]
        size = getattr(loader.batch_sampler, "batch_size", None)
        world = self.recorder.plan.world
        if not exact or size != exact[0].batch or size % world:
            return None
        return int(size // world)

    def created(self, loader: Any) -> None:
        """Number a new loader, give it its share of the batch, note what it is."""
        order, self.count = self.count, self.count + 1
        iterable = isinstance(loader.dataset, IterableDataset)
        samples = _size(loader.dataset)
        before = getattr(loader.batch_sampler, "batch_size", loader.batch_size)
        share = self.share(loader, order, samples)
        if share is not None:
            loader.batch_sampler.batch_size = share
            if loader.batch_size is not None:
                loader.__dict__["batch_size"] = share
        if self.recorder.plan.cuda_on_cpu:
            loader.__dict__["pin_memory"] = False
        loader.__dict__.update(scaffold_order=order, scaffold_passes=0)
        innermost, _ = base_indices(loader.dataset, [])
        self.recorder.write(
            "loader",
            id=order,
            samples=samples,
            base=_size(innermost),
            batch=before,
            share=share,
            dataset=type(innermost).__name__,
            sampler=type(_sampler(loader)).__name__,
            iterable=iterable,
            drop_last=bool(loader.drop_last or getattr(loader.batch_sampler, "drop_last", False)),
            workers=loader.num_workers,
            ordered=self.orders(loader),
            place=self.recorder.place(),
        )

    def consumed(self, loader_iter: Any, draw: Any, data: Any) -> None:
        """Note the samples of the batch that was handed out."""
        sampler: _Sampler = loader_iter._index_sampler
        if not draw.ahead:
            return
        batch = draw.ahead.popleft()
        indices = list(batch) if isinstance(batch, list | tuple) else [batch]
        try:
            _, places = base_indices(sampler.loader.dataset, indices)
        except (TypeError, ValueError, IndexError):
            places = [-1] * len(indices)
        if isinstance(sampler.loader.dataset, IterableDataset):
            batched = next((t for t in tensors(data) if t.dim() > 0), None)
            places = [] if batched is None else rows(batched)
        self.recorder.write(
            "batch",
            loader=sampler.loader.scaffold_order,
            number=draw.number,
            idx=places,
            grad=torch.is_grad_enabled(),
        )


def install(recorder: Recorder) -> None:
    """Watch every ``DataLoader`` of this process."""
    loaders = _Loaders(recorder)
    cls: Any = DataLoader
    init, index_sampler = cls.__init__, cls._index_sampler.fget
    iterator: Any = _BaseDataLoaderIter
    following = iterator.__next__

    def created(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        loaders.created(self)

    def sampler(self: Any) -> Any:
        if "scaffold_order" not in self.__dict__:
            return index_sampler(self)
        return _Sampler(self, index_sampler(self), loaders)

    def advance(self: Any) -> Any:
        draw = self._sampler_iter
        try:
            data = following(self)
        except StopIteration:
            if isinstance(draw, _Draw):
                order = self._index_sampler.loader.scaffold_order
                recorder.write("pass-end", loader=order, number=draw.number)
            raise
        draw = self._sampler_iter
        if isinstance(draw, _Draw):
            loaders.consumed(self, draw, data)
        return data

    cls.__init__ = created
    cls._index_sampler = property(sampler)
    iterator.__next__ = advance
