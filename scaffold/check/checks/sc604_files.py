"""Each file is written once.

Two processes that open one path to write cut each other's lines, or leave the last one's. Taken for right: paths that differ by rank.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check.code import argument
from scaffold.check.effects import on_all_ranks, own_path, writes
from scaffold.check.finding import Finding
from scaffold.check.reading import Reading

ID = "SC604"
NAME = "files"
_FIRST = {"savefig", "to_csv", "to_json", "to_parquet", "to_pickle", "FileHandler", "RotatingFileHandler", "save_image", "savetxt", "imsave", "imwrite"}


def check(reading: Reading) -> Iterator[Finding]:
    """Files that every rank writes."""
    if not reading.program.trains:
        return
    do = "write it on rank 0 alone, or give each rank a path of its own"
    for called in on_all_ranks(reading, "open"):
        path = writes(called)
        if path is not None and called.code.dotted(called.call.func) in {"open", "io.open", "gzip.open", ""} and not own_path(reading, called.code, path):
            yield reading.at(ID, "error", called.code, called.call, f"every rank writes to {ast.unparse(path)}", do)
    for called in on_all_ranks(reading, *_FIRST, "write_text", "write_bytes"):
        if isinstance(called.call.func, ast.Attribute) and called.call.func.attr.startswith("write_"):
            path = called.call.func.value
        else:
            path = argument(called.call, "filename", 1 if called.call.args[1:] and "save_image" in ast.unparse(called.call.func) else 0)
        if path is not None and not own_path(reading, called.code, path):
            yield reading.at(ID, "error", called.code, called.call, f"every rank writes to {ast.unparse(path)}", do)
    for called in on_all_ranks(reading, "save", "savez", "savez_compressed"):
        if called.code.dotted(called.call.func).startswith("numpy.") and called.call.args and not own_path(reading, called.code, called.call.args[0]):
            yield reading.at(ID, "error", called.code, called.call, f"every rank writes to {ast.unparse(called.call.args[0])}", do)
    for called in on_all_ranks(reading, "basicConfig"):
        path = argument(called.call, "filename")
        if path is not None and not own_path(reading, called.code, path):
            yield reading.at(ID, "error", called.code, called.call, f"every rank logs to {ast.unparse(path)}", do)
