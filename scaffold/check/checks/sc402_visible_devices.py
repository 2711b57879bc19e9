"""The script does not hide GPUs from its own processes.

``os.environ["CUDA_VISIBLE_DEVICES"] = "0"`` leaves every process one GPU, the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check.finding import Finding
from scaffold.check.reading import Reading

ID = "SC402"
NAME = "visible-devices"


def check(reading: Reading) -> Iterator[Finding]:
    """An assignment of one fixed GPU."""
    for code in reading.program.codes:
        if "CUDA_VISIBLE_DEVICES" not in code.text:
            continue
        for node in code.nodes:
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant) or "," in str(node.value.value):
                continue
            target = node.targets[0]
            if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and target.slice.value == "CUDA_VISIBLE_DEVICES" and node.value.value not in ("", "-1"):
                yield reading.at(ID, "error", code, node, f"every process sees GPU {node.value.value!r} alone: local rank 1 has no device", "set CUDA_VISIBLE_DEVICES outside the script")
