"""Every rule case: ``before`` is converted by the rule alone and must equal ``after`` to the byte.

``cases/<ID>/<name>/`` holds ``before.py`` and ``after.py`` (no ``after.py``: nothing may change), or folders ``before/`` and ``after/`` with an
entry ``train.py``. ``diagnostics.txt`` has one ``severity ID line`` (or ``severity ID file:line``) a line; without it there may be none.
``select.txt`` names the rules to run where it is not the folder's alone; ``options.toml`` holds fields of ``Options`` to set.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from scaffold.convert import Conversion, convert
from scaffold.errors import Refused
from scaffold.plan import Options

CASES = Path(__file__).parent / "cases"
ALL = sorted(p for p in CASES.glob("*/*") if p.is_dir())


def _entry(case: Path) -> Path:
    single = case / "before.py"
    return single if single.exists() else case / "before" / "train.py"


def _expected(case: Path, name: str) -> bytes:
    before = _entry(case).parent / name
    after = case / "after.py" if (case / "before.py").exists() else case / "after" / name
    return (after if after.exists() else before).read_bytes()


def _selected(case: Path) -> tuple[str, ...]:
    named = case / "select.txt"
    return tuple(named.read_text().split()) if named.exists() else (case.parent.name,)


def _options(case: Path, **more: Any) -> Options:
    given = case / "options.toml"
    return Options(**(tomllib.loads(given.read_text()) if given.exists() else {}), **more)


def _told(case: Path, conversion: Conversion) -> list[str]:
    single = (case / "before.py").exists()
    return [f"{d.severity} {d.rule} {d.line if single else f'{d.path}:{d.line}'}" for d in conversion.diagnostics]


@pytest.mark.parametrize("case", ALL, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_case(case: Path) -> None:
    """The rule's edits and diagnostics are the expected ones, and the result compiles."""
    conversion = convert(_entry(case), _options(case, select=_selected(case)))
    for file in conversion.files:
        assert file.encoded().decode() == _expected(case, file.source.name).decode()
        compile(file.text, file.source.name, "exec")
    told = case / "diagnostics.txt"
    assert _told(case, conversion) == (told.read_text().splitlines() if told.exists() else [])


@pytest.mark.parametrize("case", ALL, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_all_rules_compose(case: Path, tmp_path: Path) -> None:
    """All rules together give valid code, which a second conversion recognises as distributed."""
    conversion = convert(_entry(case), _options(case))
    for file in conversion.files:
        compile(file.text, file.source.name, "exec")
        target = tmp_path / file.source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.encoded())
    with pytest.raises(Refused):
        convert(tmp_path / _entry(case).name, Options())
