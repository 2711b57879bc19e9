"""Divide the batch size among the ranks, if ``--batch global`` says that it is the total.

With the script's batch size on each of N GPUs a step trains on N times as many samples. ``--batch global`` keeps the step as it was: each
rank's loader takes 1/N of it, and the run ends at once, with the reason, where the size does not divide. Evaluation keeps its batches.

Before::

    loader = DataLoader(data, batch_size=args.batch_size, sampler=DistributedSampler(data))

After::

    loader = DataLoader(data, batch_size=per_rank(args.batch_size), sampler=DistributedSampler(data))

Reference: https://docs.pytorch.org/docs/stable/notes/ddp.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.places import argument_at
from scaffold.roles.facts import Loader
from scaffold.roles.values import Map
from scaffold.rules import Diagnostic
from scaffold.source.edits import Author
from scaffold.source.tree import Source

ID = "SC801"
NAME = "global-batch"
SEVERITY = "W"


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Divide the batch size of every training loader."""
    if plan.options.batch != "global":
        return
    done: set[cst.CSTNode] = set()
    for loader in plan.train_loaders:
        place = _batch_size(plan, loader)
        if place is None:
            yield Diagnostic.at(
                ID, "error", loader.source, loader.node, "the batch size of this training loader could not be found, so --batch global cannot divide it",
                "give batch_size=... in the call of DataLoader",
            )  # fmt: skip
        elif place[1] not in done:
            done.add(place[1])
            author.call(*place, _per_rank(plan, author, place[0]))


def _batch_size(plan: Plan, loader: Loader) -> tuple[Source, cst.BaseExpression] | None:
    """The expression for a loader's batch size: an argument, or an entry of the dictionary that it is given as ``**settings``."""
    arg = argument_at(loader.node, 1, "batch_size")
    if arg is not None:
        return loader.source, arg.value
    for star in (a for a in loader.node.args if a.star == "**"):
        for obj in plan.facts.trace.value(star.value).objs:
            if isinstance(obj, Map) and obj.site is not None and (entry := _entry(obj.site)) is not None:
                source = next((s for s in plan.facts.project.sources if entry in s.parents), None)
                if source is not None:
                    return source, entry
    return None


def _entry(site: cst.CSTNode) -> cst.BaseExpression | None:
    if isinstance(site, cst.Dict):
        for element in site.elements:
            if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString) and element.key.evaluated_value == "batch_size":
                return element.value
    if isinstance(site, cst.Call):
        return next((a.value for a in site.args if a.keyword is not None and a.keyword.value == "batch_size"), None)
    return None


def _per_rank(plan: Plan, author: Author, source: Source) -> str:
    name = plan.free(source, "per_rank")
    dist = plan.dist(author, source)
    author.helper(
        source,
        name,
        f'''def {name}(batch_size):
    """This rank's part of a batch size, which must divide among the ranks."""
    share, rest = divmod(batch_size, {dist}.get_world_size())
    if rest:
        raise SystemExit(f"the batch size {{batch_size}} does not divide among {{{dist}.get_world_size()}} processes")
    return share
''',
    )
    return name
