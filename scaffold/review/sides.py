"""The files before and after a change, in two folders."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from scaffold.errors import ScaffoldError

_HEADER = re.compile(r"^(?:---|\+\+\+) (?:[ab]/)?([^\t\n]+)", re.M)


@dataclass(frozen=True)
class Sides:
    """Two folders, and the Python files, relative to them, that differ. ``title`` names the change."""

    before: Path
    after: Path
    changed: list[str]
    title: str


def of_files(one: Path, other: Path, work: Path) -> Sides:
    """Two versions of one script, each read among the modules that lie beside it.

    Raises:
        ScaffoldError: one of them cannot be read.
    """
    for path in (one, other):
        if not path.is_file():
            raise ScaffoldError(f"{path}: no such file; name two files, a range of commits (main..HEAD), or - for a patch")
    before, after = work / "before", work / "after"
    for path, folder in ((one, before), (other, after)):
        folder.mkdir(parents=True)
        for module in (p for p in path.resolve().parent.glob("*.py") if p.name not in {one.name, other.name}):
            shutil.copy(module, folder / module.name)
    shutil.copy(one, before / one.name)
    shutil.copy(other, after / one.name)
    return Sides(before, after, _different(before, after), f"{one} and {other}")


def of_commits(text: str, work: Path) -> Sides:
    """``BASE..HEAD``: the two commits; ``BASE...HEAD``: from where they parted. An empty side is ``HEAD``.

    Raises:
        ScaffoldError: this is no repository, or has no such commit.
    """
    dots = "..." if "..." in text else ".."
    base, head = (part or "HEAD" for part in text.split(dots, 1))
    if dots == "...":
        base = _git("merge-base", base, head).decode().strip()
    before, after = work / "before", work / "after"
    for commit, folder in ((base, before), (head, after)):
        _extract(commit, folder)
    return Sides(before, after, _different(before, after), text)


def of_patch(patch: bytes, work: Path) -> Sides:
    """A patch for the files here: not applied yet, or applied already.

    Raises:
        ScaffoldError: it fits neither way.
    """
    names = sorted({n for n in _HEADER.findall(patch.decode("utf-8", "replace")) if n != "/dev/null"})
    if not names:
        raise ScaffoldError("-: no patch on standard input; pipe `git diff` or `scaffold convert --diff` into it")
    before, after = work / "before", work / "after"
    root = _root()
    for folder in (before, after):
        folder.mkdir(parents=True)
        parents = {Path(n).parent for n in names}
        files = {root / n for n in names} | {p for parent in parents for p in (root / parent).glob("*.py")}
        for file in (f for f in files if f.is_file()):
            target = folder / file.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    if _applies(patch, after):
        return Sides(before, after, _different(before, after), "the patch")
    if _applies(patch, before, "-R"):
        return Sides(before, after, _different(before, after), "the patch (applied)")
    raise ScaffoldError("-: the patch fits the files here neither forwards nor backwards; run it in the repository that it was made for")


def _applies(patch: bytes, folder: Path, *how: str) -> bool:
    done = subprocess.run(["git", "apply", *how, "-"], cwd=folder, input=patch, capture_output=True, env=_alone(folder))
    return done.returncode == 0


def _alone(folder: Path) -> dict[str, str]:
    """An environment in which git takes a folder for no part of a repository."""
    return {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent), "GIT_DIR": str(folder / ".none")}


def _root() -> Path:
    done = subprocess.run(["git", "rev-parse", "--show-toplevel"], capture_output=True, text=True)
    return Path(done.stdout.strip()) if done.returncode == 0 else Path.cwd()


def _extract(commit: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    data = _git("-C", str(_root()), "archive", "--format=tar", commit)
    with tarfile.open(fileobj=BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")


def _git(*args: str) -> bytes:
    done = subprocess.run(["git", *args], capture_output=True)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ScaffoldError(f"git {args[0]}: {said[0] if said else 'failed'}; name commits of the repository you are in")
    return done.stdout


def _different(before: Path, after: Path) -> list[str]:
    names = {p.relative_to(side).as_posix() for side in (before, after) for p in side.rglob("*.py")}
    return sorted(n for n in names if _bytes(before / n) != _bytes(after / n))


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
