"""The templates that scaffold fills in, from the wheel or from the repository."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2


def folder() -> Path:
    """The folder of the templates: ``scaffold/_templates`` of an installed wheel, ``templates`` of the repository."""
    package = Path(__file__).resolve().parent
    shipped = package / "_templates"
    return shipped if shipped.is_dir() else package.parent / "templates"


@cache
def environment() -> jinja2.Environment:
    """Where templates are looked up; an undefined name is an error, and values in HTML and SVG are escaped."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=lambda name: name is not None and name.endswith((".html.j2", ".svg.j2")),
    )


def render(name: str, **values: Any) -> str:
    """Fill in ``templates/<name>.j2``."""
    return environment().get_template(f"{name}.j2").render(**values)
