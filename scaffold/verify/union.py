"""The ranks' batches and draws put together: what one process would have to take to do the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from scaffold.verify.trace import Loader, Pass, Trace

_GAP = object()
ROUNDING = 1e-3
"""Of the largest projection: more than rounding in single precision makes, less than another sample makes."""


def interleave(parts: Sequence[Sequence[Any]]) -> list[Any]:
    """One element of each part in turn, as strided shares are put back together."""
    return [item for item in chain.from_iterable(zip_longest(*parts, fillvalue=_GAP)) if item is not _GAP]


def pairs(original: Trace, ranks: Sequence[Trace]) -> Iterator[tuple[Loader, list[Loader]]]:
    """Each loader the original trains from, with the ranks' loaders that stand for it."""
    ours = list(original.train_loaders.values())
    theirs = [list(rank.train_loaders.values()) for rank in ranks]
    for place, loader in enumerate(ours):
        if all(place < len(loaders) for loaders in theirs):
            yield loader, [loaders[place] for loaders in theirs]


def union(loaders: Sequence[Loader]) -> list[Pass]:
    """The passes of the ranks as one process would make them: the k-th batches together."""
    passes = []
    for number in range(min(len(loader.passes) for loader in loaders)):
        parts = [loader.passes[number] for loader in loaders]
        batches = zip_longest(*(p.batches for p in parts), fillvalue=[])
        passes.append(Pass([interleave(group) for group in batches], all(p.finished for p in parts)))
    return passes


def batch_sizes(trace: Trace) -> set[int]:
    """The numbers of rows of the batches that the model trained on."""
    rows = {len(event["crc"]) for event in trace.of("rows")}
    return rows | {
        len(b) for loader in trace.train_loaders.values() for p in loader.passes for b in p.batches
    }


def is_batch(shape: Sequence[int], original: Sequence[int] | None, sizes: set[int], world: int) -> bool:
    """Whether a rank's draw is its share of a batch, and not one thing for all ranks."""
    if not shape or shape[0] < 1:
        return False
    if original is not None and list(original[1:]) == list(shape[1:]) and original[0] == world * shape[0]:
        return True
    return shape[0] in sizes


def joined_draws(original: Trace, ranks: Sequence[Trace]) -> dict[str, list[dict[str, Any] | None]]:
    """For each draw of the original the values that stand for all ranks, ``None`` where they do not fit."""
    ours, theirs = original.draws, [rank.draws for rank in ranks]
    sizes = batch_sizes(ranks[0])
    joined: dict[str, list[dict[str, Any] | None]] = {}
    for key, listed in theirs[0].items():
        for number, _ in enumerate(listed):
            parts = [t[key][number] for t in theirs if number < len(t.get(key, []))]
            same = ours.get(key, [])
            shape = same[number]["shape"] if number < len(same) else None
            joined.setdefault(key, []).append(_join(parts, shape, sizes, len(ranks)))
    return joined


def _join(
    parts: list[dict[str, Any]], original: list[int] | None, sizes: set[int], world: int
) -> dict[str, Any] | None:
    first = parts[0]
    shape = first["shape"]
    if len(parts) == world and is_batch(shape, original, sizes, world) and original is not None:
        inner = 1
        for size in shape[1:]:
            inner *= size
        rows = [
            [p["values"][i : i + inner] for i in range(0, len(p["values"]), max(inner, 1))] for p in parts
        ]
        values = list(chain.from_iterable(interleave(rows)))
        return {"shape": [sum(p["shape"][0] for p in parts), *shape[1:]], "values": values}
    if all(p["values"] == first["values"] for p in parts) and original == shape:
        return {"shape": shape, "values": first["values"]}
    return None


def write_replay(original: Trace, ranks: Sequence[Trace], path: Path) -> None:
    """Save what a replay of the original has to take."""
    loaders = {
        ours.facts["id"]: [p.batches for p in union(theirs)]
        for ours, theirs in pairs(original, ranks)
        if not ours.facts["iterable"]
    }
    path.write_text(
        json.dumps({"loaders": loaders, "draws": joined_draws(original, ranks)}), encoding="utf-8"
    )


def _close(ours: list[float], theirs: list[float], rows: int) -> bool:
    """Whether rows of real numbers are the same but for rounding: inputs that another model computes."""
    if not len(ours) == len(theirs) == rows:
        return False
    scale = max(abs(value) for value in ours)
    return all(abs(x - y) <= ROUNDING * scale for x, y in zip(ours, theirs, strict=True))


def matched(original: Trace, ranks: Sequence[Trace]) -> str:
    """Why the original did not train on what the ranks trained on; empty where it did."""
    for ours, theirs in pairs(original, ranks):
        both = zip(ours.passes, union(theirs), strict=False)
        if any([sorted(b) for b in a.batches] != [sorted(b) for b in u.batches] for a, u in both):
            return "the ranks' batches together are not the original's"
    rows = [sorted(chain.from_iterable(step)) for step in zip(*(rank.rows for rank in ranks), strict=False)]
    real = [sorted(chain.from_iterable(step)) for step in zip(*(rank.projections for rank in ranks), strict=False)]
    for step, (a, b) in enumerate(zip(original.rows, rows, strict=False)):
        if sorted(a) != b and a and b and not _close(sorted(original.projections[step]), real[step], len(a)):
            return f"the model's inputs differ from step {step} on"
    known = original.draws
    for key, listed in joined_draws(original, ranks).items():
        for joined, draw in zip(listed, known.get(key, []), strict=False):
            if joined is not None and joined["values"] != draw["values"]:
                return f"random draws differ ({key})"
    return ""
