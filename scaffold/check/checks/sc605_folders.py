"""Folders are made without a race, and removed once.

Between ``if not exists`` and ``makedirs`` another rank makes the folder: FileExistsError. Taken for right: ``exist_ok=True``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check.effects import on_all_ranks, own_path
from scaffold.check.finding import Finding
from scaffold.check.reading import Reading

ID = "SC605"
NAME = "folders"


def check(reading: Reading) -> Iterator[Finding]:
    """Folders that ranks make or remove at once."""
    for called in on_all_ranks(reading, "makedirs", "mkdir", "rmtree"):
        code, call = called
        removes = code.dotted(call.func) == "shutil.rmtree"
        if not removes and code.dotted(call.func).endswith("rmtree"):
            continue
        path = call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else None
        if any(k.arg in {"exist_ok", "ignore_errors"} for k in call.keywords) or len(call.args) > 2 or own_path(reading, code, path):
            continue
        if any(isinstance(a, ast.Try) and call in set(ast.walk(ast.Module(a.body, []))) for a in code.ancestors(call)):
            continue
        if removes:
            yield reading.at(ID, "error", code, call, "every rank removes this folder: the second one fails, or removes what the first has written since", "remove it on rank 0, then let the others go on (barrier)")
        else:
            yield reading.at(ID, "warning", code, call, "ranks make this folder at once: FileExistsError on all but one", "pass exist_ok=True")
