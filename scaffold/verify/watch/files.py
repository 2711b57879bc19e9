"""Files written: by Python's ``open`` (audit hook), and by ``torch.save``, which writes in C++.

Writes outside the copy of the project are refused, except under the temporary folder, ``/dev`` and the
folders that the user named.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from scaffold.verify.recorder import Recorder
from scaffold.verify.watch.names import WRAPPERS
from scaffold.verify.watch.sketch import local, sketch

LEAVES = 4000
IGNORED = ("__pycache__", ".pyc")


def describe(value: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """``(key path, description)`` of each leaf of a saved object: tensors' shapes and sketches, values."""
    if isinstance(value, torch.Tensor):
        kind = "DTensor" if hasattr(value, "to_local") else "tensor"
        whole = local(value)
        figures = sketch([whole]) if whole.is_floating_point() else {}
        yield prefix, {"kind": kind, "shape": list(value.shape), **figures}
    elif isinstance(value, dict) and depth < 12:
        if not value:
            yield prefix, {"kind": "dict"}
        for key, item in value.items():
            yield from describe(item, f"{prefix}.{key}" if prefix else str(key), depth + 1)
    elif isinstance(value, list | tuple) and depth < 12:
        for i, item in enumerate(value):
            yield from describe(item, f"{prefix}[{i}]", depth + 1)
    elif isinstance(value, torch.nn.Module):
        wrapped = [type(m).__name__ for m in value.modules() if type(m).__name__ in WRAPPERS]
        yield prefix, {"kind": "module", "class": type(value).__name__, "wrapper": wrapped[:1]}
        yield from describe(value.state_dict(), f"{prefix}<{'module'}>", depth + 1)
    elif isinstance(value, bool | int | float | str) or value is None:
        yield prefix, {"kind": "value", "value": value}
    else:
        yield prefix, {"kind": type(value).__name__}


class _Files:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.root = os.path.realpath(recorder.plan.root)
        outside = [tempfile.gettempdir(), "/dev", "/proc", *recorder.plan.writable]
        self.allowed = tuple(os.path.realpath(folder) + os.sep for folder in outside)
        self.own = os.path.realpath(recorder.plan.out) + os.sep

    def written(self, path: Any, how: str) -> None:
        """Note a write under the project; refuse one that would touch the user's files."""
        if isinstance(path, int) or path is None:
            return
        name = os.fsdecode(path)
        real = os.path.realpath(name)
        if real.startswith(self.own) or any(part in real for part in IGNORED):
            return
        if real.startswith(self.root + os.sep):
            self.recorder.write(
                "write", path=real[len(self.root) + 1 :], how=how, place=self.recorder.place()
            )
        elif not real.startswith(self.allowed):
            self.recorder.write("refused", path=name, how=how)
            raise PermissionError(f"scaffold verify: {name} is outside the copy of the project; not written")

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = args
            writes = (
                any(c in mode for c in "wax+") if isinstance(mode, str) else flags & (os.O_WRONLY | os.O_RDWR)
            )
            if writes:
                self.written(path, "open")
        elif event == "os.mkdir":
            self.written(args[0], "mkdir")
        elif event in ("os.remove", "os.rmdir", "os.truncate", "shutil.rmtree"):
            self.written(args[0], event.split(".")[1])
        elif event == "os.rename":
            self.written(args[1], "rename")


def install(recorder: Recorder) -> None:
    """Watch writing in this process."""
    files = _Files(recorder)
    save = torch.save

    def saved(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        if recorder.owns():
            path = f if isinstance(f, str | os.PathLike) else getattr(f, "name", None)
            if isinstance(path, str | os.PathLike):
                files.written(path, "torch.save")
                name = os.path.relpath(os.path.realpath(path), files.root)
                leaves = dict(leaf for leaf, _ in zip(describe(obj), range(LEAVES), strict=False))
                recorder.write("save", path=name, leaves=leaves, place=recorder.place())
        save(obj, f, *args, **kwargs)

    load = torch.load

    def loaded(f: Any, *args: Any, **kwargs: Any) -> Any:
        path = f if isinstance(f, str | os.PathLike) else getattr(f, "name", None)
        if recorder.owns() and isinstance(path, str | os.PathLike):
            name = os.path.relpath(os.path.realpath(path), files.root)
            recorder.write("load", path=name, place=recorder.place())
        return load(f, *args, **kwargs)

    setattr(torch, "save", saved)  # noqa: B010
    setattr(torch, "load", loaded)  # noqa: B010
    recording = [False]

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event.startswith(("open", "os.", "shutil")) and not recording[0]:
            recording[0] = True
            try:
                files.audit(event, args)
            finally:
                recording[0] = False

    sys.addaudithook(hook)


def leftover(root: Path) -> list[str]:
    """Files under a copy of the project, as paths relative to it."""
    found = (p for p in root.rglob("*") if p.is_file() and not any(part in str(p) for part in IGNORED))
    return sorted(str(p.relative_to(root)) for p in found)
