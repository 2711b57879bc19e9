"""Where prices come from: a file that is named, the project's and the user's settings, the rows of the package."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from scaffold.cost.prices import Layer, Price, embedded, known, read
from scaffold.errors import ScaffoldError


def user_folder() -> Path:
    """Where the user's settings are: ``$XDG_CONFIG_HOME/scaffold`` or ``~/.config/scaffold``."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "scaffold"


def layers(file: Path | None = None, here: Path | None = None) -> list[Layer]:
    """All prices, those that count more first.

    Raises:
        ScaffoldError: a file of prices or settings cannot be understood.
    """
    found = [Layer(str(file), tuple(read(file)))] if file else []
    project = _project((here or Path.cwd()).resolve())
    if project:
        found += _settings(project, ("tool", "scaffold"))
    found += _settings(user_folder() / "config.toml", ())
    imported = user_folder() / "prices.csv"
    if imported.is_file():
        found.append(Layer(str(imported), tuple(read(imported))))
    found.append(Layer("scaffold's own table", tuple(embedded())))
    return found


def _project(folder: Path) -> Path | None:
    return next((f / "pyproject.toml" for f in (folder, *folder.parents) if (f / "pyproject.toml").is_file()), None)


def _settings(path: Path, table: tuple[str, ...]) -> list[Layer]:
    """``price = {H100 = 2.60}`` and ``prices = "FILE"`` of a settings file."""
    if not path.is_file():
        return []
    try:
        data: Any = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except (OSError, ValueError) as error:
        raise ScaffoldError(f"{path}: is not valid TOML ({error})") from None
    for name in table:
        data = data.get(name, {})
    found = []
    direct = data.get("price")
    if direct is not None:
        if not isinstance(direct, Mapping):
            raise ScaffoldError(f"{path}: price must be a table of GPUs, as in price = {{H100 = 2.60}}")
        found.append(Layer(str(path), tuple(_row(gpu, value, path) for gpu, value in direct.items())))
    if "prices" in data:
        file = path.parent / str(data["prices"])
        found.append(Layer(str(file), tuple(read(file))))
    return found


def _row(gpu: str, value: Any, path: Path) -> Price:
    """A price that is a number, or a table with ``usd``, ``spot``, ``provider``, ``checked``."""
    fields = value if isinstance(value, Mapping) else {"usd": value}
    unknown = sorted(set(fields) - {"usd", "spot", "provider", "region", "checked"})
    if unknown:
        raise ScaffoldError(f"{path}: price.{gpu} has no {unknown[0]}; it takes usd, spot, provider, region, checked")
    amounts = {name: known(str(fields[name])) for name in ("usd", "spot") if name in fields}
    if not amounts or None in amounts.values():
        raise ScaffoldError(f"{path}: price.{gpu} must be dollars above 0 for an hour of one GPU")
    checked = fields.get("checked")
    if checked is not None and type(checked) is not date:
        raise ScaffoldError(f"{path}: price.{gpu}: write checked as a day, checked = 2026-10-27")
    provider = str(fields.get("provider", "own"))
    return Price(gpu, provider, amounts.get("usd"), amounts.get("spot"), str(fields.get("region", "")), checked, str(path))
