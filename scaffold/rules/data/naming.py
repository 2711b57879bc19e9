"""A name for the dataset of a loader, which a sampler needs beside the loader itself."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.roles.facts import Loader
from scaffold.source.edits import HOIST, Author
from scaffold.source.tree import Source, walk


def name_dataset(plan: Plan, author: Author, loader: Loader, dataset: cst.Arg, wanted: str) -> str:
    """Text that names the dataset; an expression that builds one gets a variable of its own first."""
    source = loader.source
    text = source.code(dataset.value)
    if not any(isinstance(n, cst.Call) for n in walk(dataset.value)):
        return text
    name = plan.local_name(source, dataset.value, wanted)
    statement = source.statement(loader.node)
    start, end = source.outer_span(dataset.value)
    if isinstance(statement, cst.SimpleStatementLine) and not any(isinstance(a, (cst.CompFor, cst.Lambda)) for a in _up(source, loader.node)):
        at = source.lines_of(statement)[0]
        author.splice(source, at, at, f"{source.indent(statement)}{name} = {_moved(source, statement, name, start, end)}{source.newline}", HOIST)
        author.splice(source, start, end, name)
    else:
        author.splice(source, start, start, f"({name} := ")
        author.splice(source, end, end, ")")
    return name


def _moved(source: Source, statement: cst.CSTNode, name: str, start: int, end: int) -> str:
    """The text of an expression with its later lines shifted as its first line is; texts of several lines stay as they are."""
    text = source.data[start:end].decode("utf-8")
    first, *rest = text.splitlines()
    if not rest or '"""' in text or "'''" in text:
        return text
    indent = source.indent(statement)
    line_start = source.data.rfind(b"\n", 0, start) + 1
    shift = len(indent) + len(f"{name} = ") - len(source.data[line_start:start].decode("utf-8"))
    lines = [first]
    for line in rest:
        bare = line.lstrip(" \t")
        lines.append(" " * max(len(line) - len(bare) + shift, len(indent)) + bare if "\t" not in line[: len(line) - len(bare)] else line)
    return source.newline.join(lines)


def _up(source: Source, node: cst.CSTNode) -> Iterable[cst.CSTNode]:
    for parent in source.ancestors(node):
        if isinstance(parent, (cst.SimpleStatementLine, cst.FunctionDef)):
            return
        yield parent
