"""What a script shows or writes: prints, logs, bars, writers, files, checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import libcst as cst

from scaffold.roles import api
from scaffold.roles.facts import Facts
from scaffold.roles.values import Ext, Val
from scaffold.source.tree import Source


@dataclass(frozen=True)
class Output:
    """One call that a person or a file sees; ``kind`` is print, log, bar, writer, tracker, file or save."""

    kind: str
    source: Source
    node: cst.Call
    name: str


def outputs(facts: Facts) -> list[Output]:
    """Every output of the project, in the order first met, then prints that were not reached."""
    return list(_outputs(facts))


@lru_cache(maxsize=8)
def _outputs(facts: Facts) -> tuple[Output, ...]:
    found: dict[cst.CSTNode, Output] = {}
    for event in facts.trace.of_kind("call"):
        if isinstance(event.node, cst.Call) and event.node not in found:
            kind = _kind(event.name, event.args, event.node)
            if kind:
                found[event.node] = Output(kind, event.source, event.node, event.name)
    for source in facts.project.sources:
        for node in source.nodes:
            if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "print" and node not in found:
                objs = facts.trace.value(node.func).objs
                if not objs or any(isinstance(o, Ext) and o.name == "print" for o in objs):
                    found[node] = Output("print", source, node, "print")
    return tuple(found.values())


def _kind(name: str, args: list[Val], node: cst.Call) -> str:
    short = name.rpartition(".")[2]
    if name in api.PRINTS:
        return "print"
    if name == "torch.save":
        return "save"
    if name in api.BARS:
        return "bar"
    if name.startswith(api.PRINTING_LIBRARIES):
        return "print"
    if name.startswith("logging.") and short in api.LOGGER_METHODS or name.startswith("logger.") and short in api.LOGGER_METHODS:
        return "log"
    if name.startswith("tqdm.tqdm.") and short in {"set_postfix", "set_description", "set_postfix_str", "write", "update"}:
        return "bar-text"
    if name.startswith("writer.") or name in {"?.add_scalar", "?.add_scalars", "?.add_image", "?.add_histogram"}:
        return "writer"
    if name.startswith(api.TRACKERS):
        return "tracker"
    if name in api.FILE_CALLS or (short in api.FILE_METHODS and isinstance(node.func, cst.Attribute) and not name.startswith(("module.state", "optimizer"))):
        return "file"
    if name == "file.write" or name == "file.writelines":
        return "write"
    return ""
