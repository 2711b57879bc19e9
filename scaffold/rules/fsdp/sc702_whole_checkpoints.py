"""Save whole tensors: gather what the ranks hold of them before rank 0 writes.

Under FSDP2 ``state_dict()`` holds each rank's share. Rank 0 alone would save a share, or wait for ever for the others. All ranks gather
together, then one writes: the file has the original's keys, shapes and numbering, and the original script loads it.

Before::

    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)

After::

    whole = gather({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    if rank == 0:
        torch.save(whole, path)

``gather`` is a function of a dozen lines in the script. It keeps the optimizer's numbering of parameters, which
``torch.distributed.checkpoint.state_dict`` replaces by names that a plain optimizer does not load.

Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.html#torch.distributed.tensor.DTensor.full_tensor
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.outputs import outputs
from scaffold.plan.places import argument_at
from scaffold.roles import calls
from scaffold.rules import Diagnostic
from scaffold.rules.effects.sc601_print_once import guard_call
from scaffold.source.edits import AFTER, HOIST, Author
from scaffold.source.tree import Source

ID = "SC702"
NAME = "whole-checkpoints"
SEVERITY = "H"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Gather in a line before each ``torch.save`` of sharded state."""
    if not plan.shardings:
        return
    for output in outputs(plan.facts):
        if output.kind != "save":
            continue
        source, given = output.source, argument_at(output.node, 0, "obj")
        if given is None:
            yield Diagnostic.at(ID, "error", source, output.node, "what is saved here is not written plainly, and may hold shares of tensors", "give torch.save its object as first argument")
        elif any(calls.role(i) == "module" for i in plan.facts.trace.value(given.value).insts()):
            yield Diagnostic.at(ID, "error", source, output.node, "a whole module is pickled here, which a sharded one does not allow", "save its state_dict()")
        else:
            _save_whole(plan, author, source, output.node, given.value)


def _save_whole(plan: Plan, author: Author, source: Source, call: cst.Call, saved: cst.BaseExpression) -> None:
    """``whole = gather(...)`` in the place of the call, and the call with ``whole`` behind it, on rank 0."""
    statement = source.statement(call)
    name, gather = plan.local_name(source, saved, "whole"), _gather(plan, author, source)
    if not isinstance(statement, cst.SimpleStatementLine) or source.parents[call] is not statement.body[0] or len(statement.body) > 1:
        author.before(source, statement, f"{name} = {gather}({' '.join(source.code(saved).split())})", HOIST)
        author.replace(source, saved, name)
        guard_call(plan, author, source, call)
        return
    start, end = source.span(call)
    first, last = source.outer_span(saved)
    opening, rest = source.data[start:first].decode(), " ".join(source.data[last:end].decode().split())
    indent = source.newline + source.indent(statement)
    close = f"{indent})" if "\n" in opening else ")"
    call_again = f"{source.code(call.func)}({name}{re.sub(r',?[ ]*[)]$', ')', rest)}"
    author.splice(source, start, start + len(opening.rstrip().encode()), f"{name} = {gather}(", HOIST)
    author.splice(source, last, end, f"{close}{indent}if {plan.is_main(author, source, call)}:{indent}{source.tree.default_indent}{call_again}", AFTER)


def _gather(plan: Plan, author: Author, source: Source) -> str:
    name = plan.free(source, "gather")
    dist = plan.dist(author, source)
    author.need(source, "from torch.distributed.tensor import DTensor")
    author.helper(
        source,
        name,
        f'''def {name}(state):
    """State with whole tensors, for rank 0 to save; all ranks must call it together."""
    if isinstance(state, DTensor):
        whole = state.full_tensor()
        return whole.cpu() if {dist}.get_rank() == 0 else None
    if isinstance(state, dict):
        return {{key: {name}(value) for key, value in state.items()}}
    if isinstance(state, (list, tuple)):
        return type(state)([{name}(value) for value in state])
    return state
''',
    )
    return name
