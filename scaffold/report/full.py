"""The whole report: JSON is the source, from it Markdown, one HTML file and SVG figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from scaffold.errors import ScaffoldError
from scaffold.report import costs, figures
from scaffold.strategy.memory import ROOM
from scaffold.templates import render

SCHEMA = "scaffold-report/1"
LIMIT = 65_536
"""Characters of a comment on GitHub."""

_SHOWN = (10**6, 100, 30, 10, 3)
"""How many lines of the long lists are shown in Markdown, until it is short enough."""

_BARS = 40

Json = Mapping[str, Any]


def report(today: date, title: str, cost: Json | None = None, memory: Json | None = None, conversion: Json | None = None) -> dict[str, Any]:
    """Everything that is known, as plain data. The parts are a cost study, a memory estimate, a conversion's summary."""
    return {
        "schema": SCHEMA,
        "title": title,
        "date": today.isoformat(),
        "decision": _decision(cost, memory),
        "conversion": conversion,
        "memory": memory,
        "cost": cost,
        "assumptions": list(cost["assumptions"]) if cost else [],
    }


def _decision(cost: Json | None, memory: Json | None) -> str:
    """One sentence: what fits, and what to take."""
    parts = []
    if memory:
        limit, gpu = memory["gpu"]["bytes"], memory["gpu"]["name"]
        room = limit if memory["complete"] else limit * (1 - ROOM)
        fit = next((s for s in memory["strategies"] if s["high"] <= room), None)
        if fit:
            open_end = "" if memory["complete"] else ", activations not counted"
            parts.append(f"{fit['name']} fits on {gpu} ({figures.gib(fit['high'])} at most of {figures.gib(limit)}{open_end})")
        else:
            parts.append(f"no strategy is sure to fit on {gpu} ({figures.gib(limit)})")
    if cost:
        first = cost["verdict"].split(". ")[0].split("; ")[0].rstrip(".")
        parts.append(first if not parts else first[:1].lower() + first[1:])
    sentence = "; ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else "No estimate was asked for."


def read_memory(path: Path) -> dict[str, Any]:
    """A memory estimate: ``{"gpu": {"name", "bytes"}, "strategies": [{"name", "parts": [{"name", "bytes"}], "low", "expected", "high"}]}``,
    or what ``scaffold estimate --json`` prints; sizes in bytes.

    Raises:
        ScaffoldError: there is no such file, or it holds something else.
    """
    try:
        return memory_of(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ScaffoldError(f"{path}: cannot be read ({error.strerror}); `scaffold estimate --json` writes it") from None
    except (ValueError, KeyError, TypeError):
        raise ScaffoldError(f"{path}: is no memory estimate; `scaffold estimate --json` writes one") from None


def memory_of(data: Any) -> dict[str, Any]:
    """The same from plain data; ``complete`` says whether activations are in it. Raises ``ValueError``, ``KeyError`` or ``TypeError`` for other data."""
    found = []
    for one in data["strategies"] if "strategies" in data else data["estimates"]:
        name = one["name"] if "name" in one else _name(one, data)
        parts: list[dict[str, Any]] = [{"name": str(part["name"]), "bytes": int(part["bytes"])} for part in one["parts"]]
        bounds = {key: int(one[key]) for key in ("low", "expected", "high")}
        if not 0 <= bounds["low"] <= bounds["high"] or any(part["bytes"] < 0 for part in parts):
            raise ValueError
        found.append({"name": str(name), "parts": parts, **bounds})
    if not found or int(data["gpu"]["bytes"]) <= 0:
        raise ValueError
    complete = all(one.get("activations_known", True) for one in data.get("estimates", ()))
    return {"gpu": {"name": str(data["gpu"]["name"]), "bytes": int(data["gpu"]["bytes"])}, "complete": complete, "strategies": found}


def _name(one: Json, data: Json) -> str:
    again = data.get("activation_checkpointing") and one is data["estimates"][-1]
    return f"{str(one['strategy']).upper()} on {one['gpus']} GPU{'s' * (one['gpus'] != 1)}{', activations computed again' * bool(again)}"


def sizes(memory: Json) -> tuple[list[str], list[list[str]]]:
    """The memory of every strategy, line by line: headings, then rows."""
    strategies = memory["strategies"]
    held = [{part["name"]: figures.gib(part["bytes"]) for part in s["parts"]} for s in strategies]
    names = dict.fromkeys(name for parts in held for name in parts)
    rows = [[name, *(parts.get(name, "") for parts in held)] for name in names]
    rows += [[name, *(figures.gib(s[key]) for s in strategies)] for key, name in (("low", "at least"), ("expected", "expected"), ("high", "at most"))]
    return ["Part", *(s["name"] for s in strategies)], rows


def rules(conversion: Json) -> list[tuple[str, str, str, str]]:
    """The rules that acted."""
    return [(rule["id"], rule["name"], str(rule["places"]), rule["why"]) for rule in conversion["rules"]]


def drawn(found: Json) -> dict[str, dict[str, Any]]:
    """The figures there are, by name: ``memory``, ``cost``, ``time``."""
    cost, memory = found["cost"], found["memory"]
    every = {
        "memory": figures.memory(memory) if memory else None,
        "cost": figures.cost(cost) if cost else None,
        "time": figures.time(cost) if cost else None,
    }
    return {name: figure for name, figure in every.items() if figure}


def markdown(found: Json) -> str:
    """The report for a pull request: below GitHub's limit, long lists are cut, which is said."""
    text = ""
    for shown in _SHOWN:
        text = render("report/report.md", found=found, costs=costs, sizes=sizes, rules=rules, bar=_bar, shown=shown)
        if len(text) < LIMIT:
            return text
    return text[: LIMIT - 100] + "\n\n(cut: the whole is in report.json)\n"


def _bar(strategy: Json, limit: int) -> str:
    """A bar of text: full to the expected size, light to the highest, the limit as a line."""
    scale = _BARS / max(limit, strategy["high"])
    full, most, end = (round(size * scale) for size in (strategy["expected"], strategy["high"], limit))
    cells = ["█" if i < full else "░" if i < most else " " for i in range(_BARS + 1)]
    cells[min(end, _BARS)] = "|"
    return "".join(cells)


def html(found: Json) -> str:
    """The report as one file that needs nothing else."""
    return render("report/report.html", found=found, costs=costs, sizes=sizes, rules=rules, drawn=drawn(found))


def svg(figure: Json, kind: str) -> str:
    """One figure as a file of its own."""
    return render(f"report/{'memory' if kind == 'memory' else 'curves'}.svg", figure=figure, kind=kind)


def write(folder: Path, found: Json) -> list[Path]:
    """Write ``report.json``, ``report.md``, ``report.html`` and the figures into a folder; return their paths.

    Raises:
        ScaffoldError: the folder cannot be written.
    """
    from scaffold.source.write import write_all

    texts = {"report.json": json.dumps(found, indent=2) + "\n", "report.md": markdown(found), "report.html": html(found)}
    texts |= {f"{name}.svg": svg(figure, name) for name, figure in drawn(found).items()}
    if folder.exists() and not folder.is_dir():
        raise ScaffoldError(f"{folder}: is a file; give --report a folder")
    files = {folder / name: text.encode() for name, text in texts.items()}
    write_all(files)
    return list(files)
