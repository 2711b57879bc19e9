"""``# noqa`` comments, as ruff reads them."""

from __future__ import annotations

import re

_NOQA = re.compile(r"#\s*noqa(?::\s*(?P<codes>[A-Z]+\d+(?:[\s,]+[A-Z]+\d+)*))?", re.I)


def silenced(lines: list[str], first: int, last: int, rule: str) -> bool:
    """Whether a comment on the first or the last line (from 1) of a finding names its rule, or all of them."""
    for number in {first, last}:
        found = _NOQA.search(lines[number - 1]) if 0 < number <= len(lines) else None
        if found is not None and (found["codes"] is None or rule.upper() in re.split(r"[\s,]+", found["codes"].upper())):
            return True
    return False
