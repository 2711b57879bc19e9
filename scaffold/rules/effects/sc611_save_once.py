"""Save checkpoints once, from the bare module.

All ranks hold the same parameters; if all write one path at once the file is torn. The bare module's ``state_dict`` has the original's keys
(no ``module.`` prefix), so the original script loads it.

Before::

    torch.save(model.state_dict(), path)

After::

    if rank == 0:
        torch.save(model.state_dict(), path)

Reference: https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html#save-and-load-checkpoints
"""

from __future__ import annotations

from collections.abc import Iterable

from scaffold.plan import Plan
from scaffold.plan.first import nodes_in_first
from scaffold.plan.outputs import outputs
from scaffold.rules import Diagnostic
from scaffold.rules.effects.sc601_print_once import guard_call
from scaffold.source.edits import Author

ID = "SC611"
NAME = "save-once"
SEVERITY = "C"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Guard ``torch.save`` by rank; what is sharded has a rule of its own (SC702)."""
    for output in outputs(plan.facts):
        if output.kind == "save" and not plan.shardings and output.node not in nodes_in_first(plan.facts):
            guard_call(plan, author, output.source, output.node)
    return
    yield
