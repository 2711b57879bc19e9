"""Writing the result: files replaced in one step, the git guard, a copy of the whole project."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from scaffold.errors import ScaffoldError

_LEFT_OUT = {
    "__pycache__",
    ".git",
    ".hg",
    ".venv",
    "venv",
    "node_modules",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
}
_LARGE_FILE = 50_000_000
_MANY_FILES = 20_000
_MANY_BYTES = 2_000_000_000


def write_all(files: Mapping[Path, bytes]) -> None:
    """Replace files: every new content is stored beside its target first, then each is renamed over it.

    Raises:
        ScaffoldError: one of them cannot be written; then none is changed.
    """
    staged: list[tuple[Path, Path]] = []
    path = Path()
    try:
        for path, data in files.items():
            staged.append((_stage(path.resolve(), data), path.resolve()))
        for new, path in staged:
            new.replace(path)
    except OSError as error:
        raise ScaffoldError(
            f"{path}: cannot be written ({error.strerror}); choose another folder with -o"
        ) from None
    finally:
        for new, _ in staged:
            with contextlib.suppress(OSError):
                new.unlink()


def write_atomic(path: Path, data: bytes) -> None:
    """Replace one file in one step.

    Raises:
        ScaffoldError: the folder cannot be written.
    """
    write_all({path: data})


def _stage(target: Path, data: bytes) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            shutil.copymode(target, name)
        else:
            Path(name).chmod(0o644)
    except BaseException:
        Path(name).unlink()
        raise
    return Path(name)


def check_clean(paths: list[Path]) -> None:
    """Refuse to overwrite files whose content git could not bring back.

    Raises:
        ScaffoldError: a file is outside git, untracked, or has uncommitted changes.
    """
    for path in paths:
        target = path.resolve()
        tracked = _git(target.parent, "ls-files", "--", target.name)
        changes = _git(target.parent, "status", "--porcelain", "--", target.name)
        if tracked and changes is not None and not changes.strip():
            continue
        reason = "has uncommitted changes" if tracked else "is not tracked by git"
        raise ScaffoldError(
            f"{path}: {reason}, so overwriting it could lose work; commit it, or write elsewhere with -o DIR "
            "(or look first with --diff, or overwrite with --allow-dirty)"
        )


def _git(folder: Path, *args: str) -> str | None:
    command = ["git", "--literal-pathspecs", "-C", str(folder), *args]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def copy_project(root: Path, out: Path) -> list[Path]:
    """Copy the project at ``root`` to ``out``, without caches and environments; return large files left out.

    Raises:
        ScaffoldError: ``out`` is the project itself, there is too much to copy, or it cannot be written.
    """
    source, target = root.resolve(), out.resolve()
    if target == source or source.is_relative_to(target):
        raise ScaffoldError(f"{out}: holds the project itself; choose another folder for -o")
    wanted, large = _to_copy(source, target)
    try:
        for path in wanted:
            new = target / path.relative_to(source)
            new.parent.mkdir(parents=True, exist_ok=True)
            if path.is_symlink() and new.is_symlink():
                new.unlink()
            shutil.copy2(path, new, follow_symlinks=False)
    except OSError as error:
        name = error.filename2 or error.filename or out
        raise ScaffoldError(
            f"{name}: cannot be copied ({error.strerror}); choose another folder with -o"
        ) from None
    return large


def _to_copy(source: Path, target: Path) -> tuple[list[Path], list[Path]]:
    wanted: list[Path] = []
    large: list[Path] = []
    size = 0
    for folder, folders, names in os.walk(source):
        here = Path(folder)
        linked = [n for n in folders if (here / n).is_symlink()]
        folders[:] = [n for n in folders if n not in _LEFT_OUT and n not in linked and here / n != target]
        for path in (here / n for n in (*names, *linked)):
            status = path.lstat()
            if status.st_size > _LARGE_FILE:
                large.append(path)
            elif path.is_symlink() or path.is_file():
                wanted.append(path)
                size += status.st_size
        if len(wanted) > _MANY_FILES or size > _MANY_BYTES:
            raise ScaffoldError(
                f"{source}: too much to copy (over {_MANY_FILES} files or {_MANY_BYTES // 10**9} GB); "
                "convert in place (in git), or apply the patch that --diff prints"
            )
    return wanted, large
