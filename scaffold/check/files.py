"""Which files to read, and which of them run together. A file without a mark of training is left after one search of its bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from scaffold.check.code import module_paths
from scaffold.errors import ScaffoldError

_MARKS = re.compile(rb"torch\.distributed|init_process_group|get_rank\(|local_rank|LOCAL_RANK|\.backward\(|DataParallel|fully_shard|DistributedSampler")
_ENTRY = re.compile(rb"^if\s+__name__\s*==|\.backward\(", re.M)
_TESTS = re.compile(rb"^\s*(?:import|from)\s+(?:pytest|unittest|torch\.testing)\b", re.M)
_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n#]*)|import[ \t]+([^\n#]+))", re.M)
_NAME = re.compile(r"([A-Za-z_]\w*)(?:\s+as\s+\w+)?")
_SKIPPED = {"__pycache__", "node_modules", "build", "dist", "site-packages", "venv", "env"}
_PLAIN, _MOST = 25, 60


def found(paths: Iterable[Path]) -> list[Path]:
    """The Python files at ``paths``; folders are walked, hidden ones, environments and build results left out.

    Raises:
        ScaffoldError: a path does not exist.
    """
    files: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            files.update(dict.fromkeys(_walk(path)))
        elif path.exists():
            files[path] = None
        else:
            raise ScaffoldError(f"{path}: no such file or folder; name a file or folder to check")
    return list(files)


def _walk(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED and not f.startswith(".") and not Path(here, f, "pyvenv.cfg").exists())
        yield from (Path(here, name) for name in sorted(names) if name.endswith(".py"))


@dataclass(eq=False)
class Tree:
    """The files named on the command line, and the local modules that they import."""

    named: list[Path]
    _bytes: dict[Path, bytes] = field(init=False, default_factory=dict)
    _exists: dict[Path, bool] = field(init=False, default_factory=dict)
    _marks: dict[Path, bool] = field(init=False, default_factory=dict)
    _edges: dict[Path, list[Path]] = field(init=False, default_factory=dict)

    def content(self, path: Path) -> bytes:
        """The bytes of a file; empty if it cannot be read."""
        known = self._bytes.get(path)
        if known is None:
            try:
                known = path.read_bytes()
            except OSError:
                known = b""
            self._bytes[path] = known
        return known

    @cached_property
    def marked(self) -> list[Path]:
        """The named files that train, or know of ranks."""
        return [p for p in self.named if self._is_marked(p)]

    def _is_marked(self, path: Path) -> bool:
        known = self._marks.get(path)
        if known is None:
            known = self._marks[path] = bool(_MARKS.search(self.content(path)))
        return known

    @cached_property
    def programs(self) -> list[list[Path]]:
        """Files that run together, the one that is started first. A marked file that nothing imports is a program too."""
        below = {p: self._reached(p) for p in self.marked if not _TESTS.search(self.content(p))}
        imported = {m for p, reached in below.items() for m in reached if m != p}
        entries = [p for p in below if p not in imported or _starts(self.content(p))]
        programs = [[p, *self._chosen(p, below[p])] for p in entries]
        covered = {p for program in programs for p in program}
        return programs + [[p] for p in below if p not in covered]

    def _chosen(self, entry: Path, reached: list[Path]) -> list[Path]:
        """All marked modules, and of the others the nearest."""
        others = [p for p in reached if p != entry]
        plain = set([p for p in others if not self._is_marked(p)][:_PLAIN])
        return [p for p in others if p in plain or self._is_marked(p)][:_MOST]

    def _reached(self, entry: Path) -> list[Path]:
        order, queue = {entry: None}, [entry]
        while queue and len(order) < 400:
            path = queue.pop(0)
            for module in self._imports(path):
                if module not in order:
                    order[module] = None
                    queue.append(module)
        return list(order)

    def _imports(self, path: Path) -> list[Path]:
        known = self._edges.get(path)
        if known is None:
            known = self._edges[path] = [m for name in _imported(self.content(path)) if (m := self._module(path, name)) is not None]
        return known

    def _module(self, path: Path, dotted: str) -> Path | None:
        return next((p for p in module_paths(path, dotted) if p != path and self._is_file(p)), None)

    def _is_file(self, path: Path) -> bool:
        known = self._exists.get(path)
        if known is None:
            known = self._exists[path] = path.is_file()
        return known


def _starts(content: bytes) -> bool:
    return bool(_ENTRY.search(content)) and b"__main__" in content


def _imported(content: bytes) -> list[str]:
    """Dotted names that may be modules: ``from a import b`` gives ``a`` and ``a.b``."""
    names: dict[str, None] = {}
    for source, what, plain in _IMPORT.findall(content):
        if plain:
            names.update((part.split()[0], None) for part in plain.decode("utf-8", "replace").split(",") if part.split())
            continue
        base = source.decode("utf-8", "replace")
        names[base] = None
        separator = "" if base.endswith(".") else "."
        names.update((f"{base}{separator}{name}", None) for name in _NAME.findall(what.decode("utf-8", "replace")))
    return list(names)
