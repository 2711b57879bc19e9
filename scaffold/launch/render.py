"""From a job to a target's files."""

from __future__ import annotations

import difflib
import importlib
import json
import pkgutil
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from scaffold.errors import ScaffoldError
from scaffold.launch import targets
from scaffold.launch.job import Job
from scaffold.templates import environment


@dataclass(frozen=True)
class Target:
    """A target as its module declares it: ``files`` are names to write and their templates."""

    name: str
    summary: str
    files: Callable[[Job], dict[str, str]]
    start: Callable[[Job, str], str]
    check: Callable[[Job], list[str]]


@dataclass(frozen=True)
class Launch:
    """Rendered files by name, the command that starts them, and what the user must know."""

    target: str
    files: dict[str, str]
    start: str
    notes: tuple[str, ...]


@cache
def all_targets() -> dict[str, Target]:
    """Every target, found by looking through ``targets``; nothing is registered anywhere else."""
    found = {}
    for info in pkgutil.iter_modules(targets.__path__):
        module = importlib.import_module(f"{targets.__name__}.{info.name}")
        summary = (module.__doc__ or "").strip().split("\n")[0]
        found[info.name] = Target(info.name, summary, module.files, module.start, module.check)
    return dict(sorted(found.items()))


def find_target(name: str) -> Target:
    """A target by name. Raises ``ScaffoldError`` with the nearest one where there is none."""
    known = all_targets()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name.lower(), known, 1, 0.4)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ScaffoldError(f"--target {name}: no such target{hint} ({', '.join(known)})")


def render(job: Job, name: str, folder: str = "launch") -> Launch:
    """A target's files for a job. Raises ``ScaffoldError`` for a job that the target cannot run."""
    target = find_target(name)
    notes = target.check(job)
    env = environment()
    env.filters |= {"sh": shlex.quote, "yaml": quoted, "comment": comment, "pprint_python": repr, "indent_shell": indented}
    files = {file: env.get_template(f"launch/{template}.j2").render(job=job, file=f"{folder}/{file}") for file, template in target.files(job).items()}
    return Launch(name, files, target.start(job, folder), tuple(notes))


def quoted(value: object) -> str:
    """A value as YAML takes it: JSON is YAML, but for characters that YAML must see escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(r"[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]", lambda m: f"\\u{ord(m[0]):04x}", text)


def indented(command: str, spaces: int) -> str:
    """A shell command inside a YAML block: line breaks in its arguments are written as the shell's ``$'\\n'``."""
    return command.replace("\r", "'$'\\r''").replace("\n", "'$'\\n''")


def comment(value: object) -> str:
    """A value for a comment: one line, nothing that could end it."""
    return "".join(c if c.isprintable() else " " for c in str(value))
