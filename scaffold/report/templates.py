"""The templates of the reports, from the wheel or from the repository."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2


@cache
def _environment() -> jinja2.Environment:
    package = Path(__file__).resolve().parent.parent
    folders = [package / "_templates" / "report", package.parent / "templates" / "report"]
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def render(name: str, **values: Any) -> str:
    """Fill in ``templates/report/<name>.j2``."""
    return _environment().get_template(f"{name}.j2").render(**values)
