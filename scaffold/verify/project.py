"""Temporary copies of the user's project, in which the scripts run. Large files are linked, not copied."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from scaffold.errors import ScaffoldError

LINKED = 10 << 20  # bytes from which a file is linked
FILES = 20_000
SKIPPED = {
    ".git",
    "__pycache__",
    ".venv",
    "venv",
    "node_modules",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
}


@dataclass(frozen=True)
class Script:
    """A script and the folder it is run in, both absolute."""

    path: Path
    root: Path

    @property
    def relative(self) -> Path:
        """The script as seen from its root."""
        return self.path.relative_to(self.root)


def locate(script: Path, root: Path | None = None) -> Script:
    """The script with its root: the given one, or the working folder if that holds it, or its own.

    Raises ``ScaffoldError`` where there is no such file, or it is outside the root.
    """
    path = script.resolve()
    if not path.is_file():
        raise ScaffoldError(f"{script}: no such file")
    if root is not None:
        folder = root.resolve()
        if not path.is_relative_to(folder):
            raise ScaffoldError(f"{script} is not inside {root}")
        return Script(path, folder)
    here = Path.cwd().resolve()
    return Script(path, here if path.is_relative_to(here) and here != Path.home() else path.parent)


def locate_converted(script: Path, original: Script) -> Script:
    """The converted script with its root, in which it has the place the original has in its own."""
    path = script.resolve()
    if not path.is_file():
        raise ScaffoldError(f"{script}: no such file")
    depth = len(original.relative.parts)
    if path.parts[-depth:] == original.relative.parts:
        return Script(path, path.parents[depth - 1])
    return Script(path, original.root if path.parent == original.path.parent else path.parent)


def _copy(source: Path, target: Path, skip: set[Path]) -> None:
    count = 0
    for folder, folders, files in os.walk(source):
        here = Path(folder)
        folders[:] = [f for f in folders if f not in SKIPPED and (here / f).resolve() not in skip]
        to = target / here.relative_to(source)
        to.mkdir(parents=True, exist_ok=True)
        for name in [f for f in folders if (here / f).is_symlink()]:
            folders.remove(name)
            if not (to / name).exists():
                (to / name).symlink_to((here / name).resolve())
        for name in files:
            count += 1
            if count > FILES:
                raise ScaffoldError(
                    f"{source} holds more than {FILES} files; name the project's folder with --root"
                )
            _place(here / name, to / name)


def _place(source: Path, target: Path) -> None:
    if not source.is_file():
        return
    if target.is_symlink() or target.exists():
        target.unlink()
    if source.stat().st_size >= LINKED:
        target.symlink_to(source.resolve())
    else:
        shutil.copy2(source, target)


def copy(original: Script, script: Script, target: Path) -> Script:
    """Copy the original's project to ``target``, the script's own over it; return the script there."""
    inside = {script.root} if script.root != original.root else set()
    _copy(original.root, target, inside | {target.resolve()})
    if script.root != original.root:
        _copy(script.root, target, {target.resolve()})
    return Script(target / script.relative, target)


def take_up(folder: Path, script: Script, target: Path) -> Script:
    """Copy a folder that a run left to ``target``, the script's code over it; return the script there."""
    _copy(folder, target, {target.resolve()})
    for file in script.root.rglob("*.py"):
        place = target / file.relative_to(script.root)
        if place.parent.is_dir() and not SKIPPED.intersection(file.parts):
            _place(file, place)
    return Script(target / script.relative, target)
