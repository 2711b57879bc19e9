"""Every example as a pair: the script for one GPU, and what ``scaffold convert`` makes of it."""

from __future__ import annotations

import re
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaffold.convert import convert
from scaffold.plan import Options

EXAMPLES = Path(__file__).resolve().parent
SETTINGS: dict[str, dict[str, Any]] = tomllib.loads((EXAMPLES / "examples.toml").read_text())

@dataclass(frozen=True)
class Pair:
    """Two scripts that should train the same, and how they are run. ``unknown``: checks that can't tell, with the reason."""

    original: Path
    converted: Path
    args: list[str]
    rank_args: list[str] | None
    resume: list[str] | None
    unknown: dict[str, str]


def convert_example(name: str, folder: Path, options: Options | None = None) -> Pair:
    """Convert the example ``name`` below ``folder``, which must be empty.

    Where the script takes it, both run in double precision: rounding then neither hides nor feigns a difference.
    """
    settings = SETTINGS[name]
    own_batches = settings.get("own_batches", False)
    original = shutil.copytree((EXAMPLES / settings["script"]).parent, folder / "original") / Path(settings["script"]).name
    if not settings.get("single", False):
        _double(original)
    conversion = convert(original, options or Options())
    if conversion.errors:
        raise AssertionError(f"{name}: {conversion.errors}")
    converted = shutil.copytree(original.parent, folder / "converted")
    for file in conversion.files:
        (converted / file.source.name).write_bytes(file.encoded())
    if own_batches and "rank_constant" in settings:
        _share_batch(converted / original.name, settings["rank_constant"])
    quick = settings.get("quick", [])
    return Pair(
        original=original,
        converted=converted / original.name,
        args=[*settings["args"], *quick],
        rank_args=[*settings["rank_args"], *quick] if own_batches else None,
        resume=settings.get("resume"),
        unknown=settings.get("unknown", {}),
    )


def _double(script: Path) -> None:
    """Let the script make 64-bit tensors."""
    text = script.read_text()
    first = re.search(r"^import torch.*\n", text, re.M)
    if first is None:
        raise AssertionError(f"{script}: no line imports torch")
    script.write_text(f"{text[: first.end()]}import torch; torch.set_default_dtype(torch.float64)\n{text[first.end() :]}")


def _share_batch(script: Path, texts: list[str]) -> None:
    """Divide a batch size that is written in the script."""
    before, after = texts
    text = script.read_text()
    if text.count(before) != 1:
        raise AssertionError(f"{script}: {before!r} is not there once")
    script.write_text(text.replace(before, after))
