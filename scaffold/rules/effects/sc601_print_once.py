"""Print, plot and write once: guard output by rank.

Every rank runs every line, so each message comes N times and each file is written N times at once, which corrupts it. The guard is the
global rank, not the local one: with two machines, local rank 0 exists twice.

Before::

    print(f"epoch {epoch}: {loss}")

After::

    if rank == 0:
        print(f"epoch {epoch}: {loss}")

Reference: https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.first import nodes_in_first
from scaffold.plan.outputs import outputs
from scaffold.rules import Diagnostic
from scaffold.source.edits import HOIST, Author
from scaffold.source.tree import Source, walk

ID = "SC601"
NAME = "print-once"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Guard prints, files and checkpoint writes that stand as statements of their own."""
    for output in outputs(plan.facts):
        if output.kind == "print" or (output.kind == "file" and output.node not in nodes_in_first(plan.facts)):
            guard_call(plan, author, output.source, output.node)
    return
    yield


def guard_call(plan: Plan, author: Author, source: Source, node: cst.Call) -> None:
    """Run a call on rank 0 only: its statement if it is one, else the expression."""
    statement = source.statement(node)
    condition = plan.is_main(author, source, node)
    for heavy in plan.collective_calls(source, node):
        name = plan.local_name(source, heavy, "result")
        author.before(source, statement, f"{name} = {source.code(heavy)}", HOIST)
        author.replace(source, heavy, name)
    small = statement.body if isinstance(statement, cst.SimpleStatementLine) else [statement]
    if all(isinstance(s, cst.Expr) and _is_call_chain(s.value) for s in small) and (len(small) == 1 or all(_same_kind(s, node) for s in small)):  # type: ignore[arg-type]
        author.guard(source, statement, condition)
    elif isinstance(source.parents[node], (cst.Expr, cst.Lambda)) or not isinstance(statement, cst.BaseCompoundStatement):
        author.wrap(source, node, "", f" if {condition} else None")
    elif isinstance(statement, cst.If) and any(n is node for n in walk(statement.test)):
        loose = isinstance(statement.test, (cst.BooleanOperation, cst.IfExp)) and not statement.test.lpar
        author.wrap(source, statement.test, f"{condition} and {'(' if loose else ''}", ")" if loose else "")


def _is_call_chain(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call)


def _same_kind(small: cst.BaseSmallStatement, node: cst.Call) -> bool:
    return isinstance(small, cst.Expr) and isinstance(small.value, cst.Call) and type(small.value.func) is type(node.func)
