"""Plain text in columns."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence


def table(lines: Sequence[Sequence[str]], indent: str = "") -> str:
    """Lines with aligned columns; the last column is wrapped to the terminal's width."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]) - 1)]
    offset = len(indent) + sum(w + 2 for w in widths)
    room = max(shutil.get_terminal_size((110, 24)).columns - offset, 30)
    out = []
    for line in lines:
        last = textwrap.wrap(line[-1], room, break_on_hyphens=False) or [""]
        fixed = "".join(cell.ljust(w + 2) for cell, w in zip(line, widths, strict=False))
        out.append((indent + fixed + last[0]).rstrip())
        out += [" " * offset + more for more in last[1:]]
    return "\n".join(out)


def paragraph(text: str, indent: str = "") -> str:
    """Text wrapped to the terminal's width."""
    width = min(max(shutil.get_terminal_size((110, 24)).columns, 40), 110)
    return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
