"""Small fingerprints of large tensors, by which two processes can be compared without moving the tensors.

A sketch holds the norm, a checksum and four random projections. For a difference ``d`` of two flat tensors
each projection differs by a draw of N(0, |d|), so their root mean square estimates |d|.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

WIDTH = 16384
PROJECTIONS = 4
_tables: dict[str, torch.Tensor] = {}


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor that this process holds: the shard of a DTensor, else the tensor."""
    part = getattr(tensor, "to_local", None)
    return tensor.detach() if part is None else part().detach()


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor: a DTensor is gathered, which all ranks must do together."""
    gathered = getattr(tensor, "full_tensor", None)
    return tensor.detach() if gathered is None else gathered().detach()


def tensors(values: Any) -> Iterator[torch.Tensor]:
    """The tensors in nested lists, tuples and dictionaries, in order."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, dict):
        for value in values.values():
            yield from tensors(value)
    elif isinstance(values, list | tuple):
        for value in values:
            yield from tensors(value)


def _table(name: str, rows: int, columns: int) -> torch.Tensor:
    known = _tables.get(name)
    if known is None or known.shape[0] < rows:
        generator = torch.Generator("cpu").manual_seed(1)
        known = _tables[name] = torch.randn(rows, columns, generator=generator, dtype=torch.float32, device="cpu")
    return known[:rows]


def sketch(tensors: Iterable[torch.Tensor]) -> dict[str, Any]:
    """``{"norm", "crc", "proj"}`` of tensors laid end to end, as 32-bit floats on the CPU."""
    parts = [whole(t).reshape(-1).to("cpu", torch.float32) for t in tensors]
    if not parts:
        return {"norm": 0.0, "crc": 0, "proj": [0.0] * PROJECTIONS}
    flat = torch.cat(parts)
    crc = zlib.crc32(flat.numpy().tobytes())
    rows = -(-flat.numel() // WIDTH)
    table = _table("columns", WIDTH, PROJECTIONS)
    projected = torch.empty(rows, PROJECTIONS, dtype=torch.float32, device="cpu")
    full = flat.numel() // WIDTH
    torch.mm(flat[: full * WIDTH].view(full, WIDTH), table, out=projected[:full])
    rest = flat[full * WIDTH :]
    if rest.numel():
        projected[full:] = rest.view(1, -1) @ table[: rest.numel()]
    signs = _table("rows", max(rows, 1024), PROJECTIONS)[:rows].sign()
    return {"norm": float(flat.norm()), "crc": crc, "proj": (projected * signs).sum(0).tolist()}


def norms(tensors: Sequence[torch.Tensor]) -> list[float]:
    """The norm of each tensor."""
    parts = [whole(t) for t in tensors]
    return [float(value) for value in torch._foreach_norm(parts)] if parts else []


def rows(batch: torch.Tensor, samples: int = 4096) -> list[int]:
    """A checksum of each row (first dimension) of a batch, from at most ``samples`` of its elements."""
    flat = batch.detach().to("cpu").reshape(batch.shape[0], -1)
    step = -(-flat.shape[1] // samples)
    if step > 1:
        flat = flat[:, ::step]
    if flat.dtype == torch.bfloat16:
        flat = flat.float()
    array = flat.contiguous().numpy()
    return [zlib.crc32(row.tobytes()) for row in array]


def projections(batch: torch.Tensor, samples: int = 4096) -> list[float]:
    """A random projection of each row of a batch of real numbers, by which rows can be found again that differ by rounding."""
    if not batch.is_floating_point():
        return []
    flat = batch.detach().to("cpu").reshape(batch.shape[0], -1)[:, :samples].double()
    table = _table("columns", WIDTH, PROJECTIONS)[: flat.shape[1], 0].double()
    return (flat @ table).tolist()
