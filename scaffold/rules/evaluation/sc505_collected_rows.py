"""Gather what ranks collected row by row: predictions for a score, labels, counts of classes.

A list that a loop over divided data fills holds this rank's share: an F1 score, an AUC or a confusion matrix of it is another number on each
rank, and none of them is the whole's. Behind the loop the shares are put together on every rank; scores that do not depend on the order of
the rows are then the original's.

Before::

    for x, y in train_loader:
        predictions += model(x).argmax(1).tolist()
    score = f1_score(labels, predictions)

After::

    for x, y in train_loader:
        predictions += model(x).argmax(1).tolist()
    predictions = gather_rows(predictions)
    score = f1_score(labels, predictions)

Reference: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather_object
"""

from __future__ import annotations

from collections.abc import Iterable

from scaffold.plan import Plan
from scaffold.plan.collected import Collected, collected, measured_only
from scaffold.plan.regions import divided_loops
from scaffold.roles.facts import StepLoop
from scaffold.rules import Diagnostic
from scaffold.rules.data.sc218_common_draws import alias_of
from scaffold.source.edits import AFTER, Author
from scaffold.source.tree import Source

ID = "SC505"
NAME = "collected-rows"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Put the ranks' rows together behind each loop that collects some."""
    for loop in divided_loops(plan.facts, plan.sharded):
        for item in collected(plan.facts, loop, plan.sharded):
            if not measured_only(plan.facts, loop, item.name):
                _gather(plan, author, loop, item)
    return
    yield


def _gather(plan: Plan, author: Author, loop: StepLoop, item: Collected) -> None:
    source = loop.source
    gather = _helper(plan, author, source)
    line = f"{item.name} = {gather}({item.name})"
    if item.kind == "counter":
        line = f"{item.name} = sum({gather}([{item.name}]), type({item.name})())"
    elif item.kind == "tensor":
        line = f"{item.name} = {plan.torch(author, source)}.cat([rows.to({item.name}.device) for rows in {gather}([{item.name}])])"
    elif item.kind == "array":
        line = f"{item.name} = {alias_of(plan.facts, source, 'numpy') or 'numpy'}.concatenate({gather}([{item.name}]))"
    test = plan.partly_divided.get(loop.node)
    if test:
        author.need(source, "from torch.utils.data.distributed import DistributedSampler")
        line = f"if {test}:  # else every rank has read all of it\n    {line}"
    author.after(source, loop.node, line, AFTER)


def _helper(plan: Plan, author: Author, source: Source) -> str:
    name = plan.free(source, "gather_rows")
    dist = plan.dist(author, source)
    author.helper(
        source,
        name,
        f'''def {name}(rows):
    """The rows that all ranks collected, one rank's after the other."""
    shares = [None] * {dist}.get_world_size()
    {dist}.all_gather_object(shares, rows)
    return [row for share in shares for row in share]
''',
    )
    return name
