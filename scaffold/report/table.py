"""Plain text in columns."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence


def table(lines: Sequence[Sequence[str]], wrap: bool = True) -> str:
    """Lines with aligned columns; the last column is wrapped to the terminal's width, or cut."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]) - 1)]
    offset = sum(w + 2 for w in widths)
    room = max(shutil.get_terminal_size((110, 24)).columns - offset, 30)
    out = []
    for line in lines:
        last = (textwrap.wrap(line[-1], room, break_on_hyphens=False) if wrap else [cut(line[-1], room)]) or [
            ""
        ]
        fixed = "".join(cell.ljust(w + 2) for cell, w in zip(line, widths, strict=False))
        out.append((fixed + last[0]).rstrip())
        out += [" " * offset + more for more in last[1:]]
    return "\n".join(out)


def cut(text: str, width: int) -> str:
    """Text of at most ``width`` characters."""
    return text if len(text) <= width else text[: width - 1] + "…"


def paragraph(text: str, indent: str = "") -> str:
    """Text wrapped to the terminal's width."""
    width = min(max(shutil.get_terminal_size((110, 24)).columns, 40), 110)
    return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
