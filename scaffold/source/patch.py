"""Showing and writing the result: unified diffs, atomic files, the git guard."""

from __future__ import annotations

import contextlib
import difflib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from scaffold.errors import ScaffoldError
from scaffold.source.rewrite import Rewritten

_HEAVY = shutil.ignore_patterns("__pycache__", ".git", ".venv", "venv", "node_modules", ".mypy_cache", ".ruff_cache")


def unified_diff(result: Rewritten, relative: str, context: int = 3) -> str:
    """Return the change as a patch that ``git apply`` takes (empty when nothing changed)."""
    if result.text == result.source.text:
        return ""
    old, new = (_keep_newlines(t) for t in (result.source.text, result.text))
    lines = difflib.unified_diff(old, new, f"a/{relative}", f"b/{relative}", n=context)
    return "".join(x if x.endswith("\n") else x + "\n\\ No newline at end of file\n" for x in lines)


def _keep_newlines(text: str) -> list[str]:
    parts = text.split("\n")
    return [p + "\n" for p in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def write_atomic(path: Path, data: bytes) -> None:
    """Replace ``path`` in one step: a temporary file beside it, flushed, then renamed over it.

    Raises:
        ScaffoldError: the folder cannot be written.
    """
    target = path.resolve()
    try:
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
            Path(name).replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise ScaffoldError(f"{path}: cannot be written ({error.strerror}); choose another folder with -o") from None


def check_clean(paths: list[Path]) -> None:
    """Refuse to overwrite files whose content git could not bring back.

    Raises:
        ScaffoldError: a file is outside git, untracked, or has uncommitted changes.
    """
    for path in paths:
        answer = _git(path.parent, "status", "--porcelain", "--ignored", "--", path.name)
        tracked = _git(path.parent, "ls-files", "--", path.name)
        if answer is None or not tracked or answer.strip():
            reason = "is not in git" if not tracked else "has uncommitted changes"
            raise ScaffoldError(
                f"{path}: {reason}, so overwriting it could lose work; commit it, or write elsewhere with -o DIR "
                "(or overwrite with --allow-dirty, or look first with --diff)"
            )


def _git(folder: Path, *args: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder or "."), *args], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def copy_project(root: Path, out: Path) -> None:
    """Copy the Python project at ``root`` to ``out`` (code and small files, no caches or environments).

    Raises:
        ScaffoldError: ``out`` lies where copying would overwrite the project itself.
    """
    if out.resolve() == root.resolve():
        raise ScaffoldError(f"{out}: is the project itself; choose another folder for -o")
    nested = out.resolve().is_relative_to(root.resolve())

    def ignore(folder: str, names: list[str]) -> set[str]:
        skip = set(_HEAVY(folder, names))
        if nested:
            skip.update(n for n in names if (Path(folder) / n).resolve() == out.resolve())
        return skip | {n for n in names if (Path(folder) / n).stat(follow_symlinks=False).st_size > 20_000_000}

    try:
        shutil.copytree(root, out, ignore=ignore, dirs_exist_ok=True, symlinks=True)
    except (OSError, shutil.Error) as error:
        raise ScaffoldError(f"{out}: cannot be written ({error}); choose another folder with -o") from None
