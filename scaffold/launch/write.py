"""Rendering and writing launch files for a command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from scaffold.errors import ScaffoldError
from scaffold.launch.auto import suggested
from scaffold.launch.job import Job
from scaffold.launch.render import Launch, render
from scaffold.source.write import write_all


def job_for(script: Path, output: Path, **settings: Any) -> Job:
    """The job of a script that is run from this folder, for files in ``output``. Raises ``ScaffoldError`` for bad input."""
    if not script.is_file():
        raise ScaffoldError(f"{script}: no such file")
    here = Path.cwd()
    up = os.path.relpath(here, here / output)
    if settings.get("cost"):
        settings["cost"] = _money(settings["cost"])
    inside = os.path.relpath(script, here)
    return Job(inside, up=up, **settings)


def _money(text: str) -> str:
    try:
        value = Decimal(text.removeprefix("$"))
    except InvalidOperation:
        raise ScaffoldError(f"--max-cost {text}: an amount in dollars is needed, for instance 250") from None
    if value <= 0:
        raise ScaffoldError(f"--max-cost {text}: an amount above zero is needed")
    return f"{value:.2f}"


def launches(job: Job, targets: str, output: Path) -> list[Launch]:
    """The files of each target in a list with commas; ``auto`` stands for what this machine suggests."""
    found = []
    for name in dict.fromkeys(t.strip() for t in targets.split(",")):
        if name == "auto":
            name, sign = suggested()
            launch = render(job, name, str(output))
            found.append(Launch(name, launch.files, launch.start, (f"{name}: {sign}", *launch.notes)))
        else:
            found.append(render(job, name, str(output)))
    return found


def write(found: Sequence[Launch], output: Path) -> None:
    """Write all files, each at once; shell scripts can be run."""
    output.mkdir(parents=True, exist_ok=True)
    contents = {output / name: text.encode() for launch in found for name, text in launch.files.items()}
    write_all(contents)
    for path in contents:
        if path.suffix == ".sh":
            path.chmod(0o755)


def told(found: Sequence[Launch], output: Path) -> str:
    """What was written, how to start it, and what to know."""
    lines = []
    for launch in found:
        lines.append(f"{launch.target:12} {', '.join(str(output / name) for name in launch.files)}")
        lines.append(f"  start it with  {launch.start}")
        lines += [f"  note: {note}" for note in launch.notes]
    return "\n".join(lines)
