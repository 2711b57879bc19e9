"""A training repository from the Copier template, with launch files from the templates of ``scaffold launch``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from scaffold.errors import ScaffoldError
from scaffold.launch.job import Job
from scaffold.launch.render import render
from scaffold.launch.write import write
from scaffold.templates import folder as templates


def generate(folder: Path, answers: Mapping[str, str], targets: Sequence[str], template: str | None, defaults: bool) -> str:
    """Write the repository; what to do next. Raises ``ScaffoldError`` for a folder that is in use or has no fitting name."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ScaffoldError(f"{folder}: is in use; choose a new folder")
    name = folder.resolve().name
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        raise ScaffoldError(f"{name}: a project's name has lower case letters, digits and hyphens, a letter first; for instance {plain or 'my-project'}")
    launches = [render(Job("train.py", name=name), target.strip()) for target in targets]
    import copier

    source = template or str(templates() / "project")
    try:
        copier.run_copy(source, folder, data={"project_name": name, **answers}, defaults=defaults, quiet=True)
    except (copier.errors.CopierError, OSError, ValueError) as error:
        raise ScaffoldError(f"{source}: the template could not be used ({error})") from None
    if launches:
        write(launches, folder / "launch")
    return f"{folder} is ready:\n    cd {folder}\n    pip install -e '.[dev]'\n    torchrun --standalone --nproc-per-node=2 train.py --steps 200"
