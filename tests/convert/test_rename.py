"""What a thing is called decides nothing: a script with every local name changed is converted alike."""

from __future__ import annotations

import difflib
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from scaffold.convert import convert
from scaffold.plan import Options
from tests.convert.renaming import rename

EXAMPLES = sorted(path.parent for path in (Path(__file__).resolve().parents[2] / "examples").glob("*/train.py"))


MEAN = re.compile(r"\bmean_\w+")


def converted(folder: Path, undo: Callable[[str], str] = str) -> tuple[list[str], list[tuple[str, str, str, int]]]:
    """The lines of the result, with the old names, and what was told."""
    conversion = convert(folder / "train.py", Options())
    told = [(d.rule, d.severity, d.path, d.line) for d in conversion.diagnostics]
    lines = [f"{f.source.name}: {line}" for f in conversion.files for line in undo(plain(f.source.text, f.text)).splitlines()]
    return lines, told


def plain(before: str, after: str) -> str:
    """``after`` with the means that it names numbered (they go by the names in the expression), and ``torch.distributed`` spelled out
    (``dist`` may be taken by a variable)."""
    if "import torch.distributed as dist" in after:
        after = re.sub(r"\bdist\.", "torch.distributed.", after).replace("distributed as dist", "distributed")
    made = dict.fromkeys(name for name in MEAN.findall(after) if name not in before)
    numbered = {name: f"mean_{number}" for number, name in enumerate(made)}
    return MEAN.sub(lambda found: numbered.get(found[0], found[0]), after)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.name)
def test_renamed_alike(example: Path, seed: int, tmp_path: Path) -> None:
    folder = shutil.copytree(example, tmp_path / "renamed")
    renaming = rename(sorted(folder.glob("*.py")), seed)
    assert len(renaming.old) > 20
    for path, text in renaming.texts.items():
        compile(text, path.name, "exec")
        assert renaming.undo(text) == (example / path.name).read_text()
        path.write_text(text)
    lines, told = converted(example)
    others, told_of_other = converted(folder, renaming.undo)
    assert "\n".join(difflib.unified_diff(lines, others, "plain", "renamed", lineterm="", n=0)) == ""
    assert told_of_other == told
