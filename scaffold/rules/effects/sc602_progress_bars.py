"""Show one progress bar: ``disable`` it on the other ranks.

N bars write over each other on one terminal line.

Before::

    for batch in tqdm(loader):

After::

    for batch in tqdm(loader, disable=rank != 0):

Reference: https://tqdm.github.io/docs/tqdm/
"""

from __future__ import annotations

from collections.abc import Iterable

from scaffold.plan import Plan
from scaffold.plan.outputs import outputs
from scaffold.roles import api
from scaffold.rules import Diagnostic
from scaffold.rules.common import keyword
from scaffold.source.edits import Author

ID = "SC602"
NAME = "progress-bars"
SEVERITY = "S"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Add ``disable=`` to every progress bar."""
    for output in outputs(plan.facts):
        if output.kind != "bar" or api.BARS.get(output.name) != "disable":
            continue
        source, call = output.source, output.node
        rank = plan.rank(author, source, call)
        given = keyword(call, "disable")
        if given is None:
            author.add_argument(source, call, f"disable={rank} != 0")
        else:
            text = source.code(given.value)
            author.replace(source, given.value, f"{rank} != 0 or {text}" if text != "False" else f"{rank} != 0")
    return
    yield
