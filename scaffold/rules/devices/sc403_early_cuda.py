"""No CUDA work before the process knows its GPU.

Code at the top level of an imported module runs before ``main`` and so before ``set_device``. What it puts on the GPU lands on GPU 0 for every
process: each of them holds half a gigabyte there, and tensors of two devices meet later.

Before::

    # config.py
    weights = torch.tensor([0.2, 0.8]).cuda()

After (by hand)::

    # config.py
    def class_weights(device):
        return torch.tensor([0.2, 0.8], device=device)

``torch.cuda.is_available()`` and ``torch.device("cuda")`` do no CUDA work and are fine.

Reference: https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_device.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.timing import at_import
from scaffold.roles.trace import Event
from scaffold.roles.values import Val
from scaffold.rules import Diagnostic
from scaffold.source.edits import Author

ID = "SC403"
NAME = "early-cuda"
SEVERITY = "C"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Report CUDA work at the top level of imported modules."""
    if plan.device == "cpu":
        return
    done: set[cst.CSTNode] = set()
    for event in plan.facts.trace.of_kind("call"):
        if event.node not in done and _uses_gpu(event) and at_import(plan.facts, event):
            done.add(event.node)
            yield Diagnostic.at(
                ID, "error", event.source, event.node, "this runs while the module is imported, before the process knows its GPU: every process would put it on GPU 0",
                "move it into a function that is called after the set-up",
            )  # fmt: skip


def _uses_gpu(event: Event) -> bool:
    short = event.name.rpartition(".")[2]
    if short == "cuda" and "." in event.name and event.name != "torch.cuda":
        return True
    if short == "to" and not event.name.startswith("torch."):
        return any(_is_gpu(a) for a in (*event.args[:1], *(v for k, v in event.kwargs.items() if k == "device")))
    device = event.kwargs.get("device")
    return event.name.startswith("torch.") and event.name != "torch.device" and device is not None and _is_gpu(device)


def _is_gpu(value: Val) -> bool:
    """Whether a value is a CUDA device, or a name of one."""
    names = [*value.consts(), *(c for i in value.insts() if i.qualified == "torch.device" for a in i.args for c in a.consts())]
    return any(isinstance(n, str) and n.startswith("cuda") for n in names)
