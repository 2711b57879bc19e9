"""Whether a script can train at all, from the plain text of what it may import: parsing all of that can take a minute."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

SKIP = {"site-packages", "__pycache__", ".git", ".venv", "venv", "node_modules"}
"""Folders whose files are not the user's own."""

_COMMENT = re.compile(rb"#[^\n]*")
_IMPORT_LINE = re.compile(rb"(?:^|[;:])[ \t]*(?:from|import)\b(?:\\\r?\n|[^\n(])*(?:\([^)]*\))?", re.M)
_WORD = re.compile(rb"[A-Za-z_]\w*")
_LEARNING = re.compile(
    rb"\b(?:import|from)\s+(?:torch|pytorch_lightning|lightning|transformers|trl|accelerate|deepspeed|fastai"
    rb"|horovod|ignite|catalyst|colossalai|composer|mmengine|ray|apex|fairscale)\b"
)


def may_train(folders: Iterable[Path], entry: bytes) -> bool:
    """Whether the entry, or a file that it may import from ``folders``, speaks of torch and of ``backward``."""
    wanted = {b"torch", b"backward"}
    seen = set(folders)
    listings, texts = [_listing(folder) for folder in seen], [entry]
    names: set[str] = set()
    while texts:
        text = texts.pop()
        wanted = {word for word in wanted if word not in text}
        if not wanted:
            return True
        new = _imported(text) - names
        names |= new
        found = [path for listing in listings for path in _named(listing, new)]
        while found:
            path = found.pop()
            if path in seen:
                continue
            seen.add(path)
            if path.suffix:
                texts.append(_bytes(path))
            else:
                listings.append(_listing(path))
                found += _named(listings[-1], names | {"__init__"})
    return False


def teaches(text: bytes) -> bool:
    """Whether a file imports torch or a training library."""
    return _LEARNING.search(text) is not None


def _imported(text: bytes) -> set[str]:
    """Every word of an import statement."""
    lines = b" ".join(_IMPORT_LINE.findall(_COMMENT.sub(b"", text)))
    return {word.decode("ascii", "ignore") for word in _WORD.findall(lines)}


def _listing(folder: Path) -> dict[str, list[Path]]:
    """The modules and packages of a folder, by name."""
    found: dict[str, list[Path]] = {}
    if SKIP.intersection(folder.parts):
        return found
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            stem, dot, suffix = entry.name.partition(".")
            if suffix == "py" or not dot and entry.is_dir():
                found.setdefault(stem, []).append(folder / entry.name)
    return found


def _named(listing: dict[str, list[Path]], names: set[str]) -> list[Path]:
    return [path for name in names & listing.keys() for path in listing[name]]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
