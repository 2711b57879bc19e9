"""Rank 0 does not call the wrapper alone.

DDP's forward broadcasts buffers (BatchNorm's, and others) from rank 0, in evaluation too: rank 0 waits for ranks that do not
come, or pairs with their next all-reduce. A sharded model gathers parameters in every forward. Taken for right: the module
inside DDP, and DDP over a model without buffers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.finding import Finding
from scaffold.check.reading import Reading

ID = "SC502"
NAME = "evaluation-buffers"
_BUFFERS = re.compile(r"BatchNorm|torchvision\.models|models\.resnet|timm\.create_model|^    {1,2}self\.register_buffer|^        self\.register_buffer", re.M)


def check(reading: Reading) -> Iterator[Finding]:
    """Forwards through a wrapper where rank 0 alone comes by."""
    buffers = any(_BUFFERS.search(c.text) for c in reading.program.codes)
    for code in reading.program.codes:
        for call in code.calls:
            held = {h.kind for h in reading.values.of(code, call.func)} if isinstance(call.func, (ast.Name, ast.Attribute)) else set()
            sharded = kinds.FSDP in held
            if not (sharded or (kinds.DDP in held and kinds.INNER not in held and buffers)) or not reading.alone(code, call):
                continue
            what = "a sharded model's forward gathers parameters" if sharded else "DDP's forward broadcasts buffers"
            do = "let all ranks evaluate" if sharded else "call wrapper.module, or let all ranks evaluate"
            yield reading.at(ID, "error", code, call, f"{what} from the other ranks, and rank 0 alone comes here: it hangs", do)
