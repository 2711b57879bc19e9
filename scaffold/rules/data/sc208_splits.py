"""Split alike on every rank: a seed for each split or shuffle that has none.

An unseeded ``random_split`` draws another split in each process: what one rank validates on, another trains on, and the validation score is too
good to be true.

Before::

    train_set, val_set = random_split(dataset, [900, 100])
    random.shuffle(files)

After::

    train_set, val_set = random_split(dataset, [900, 100], generator=torch.Generator().manual_seed(0))
    random.Random(0).shuffle(files)

A script that seeds the generator in question beforehand splits alike already.

Reference: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.random_split
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.own_batching import data_draws
from scaffold.plan.settings import setting_of
from scaffold.plan.timing import in_training
from scaffold.roles.facts import Facts
from scaffold.roles.trace import Event
from scaffold.rules import Diagnostic
from scaffold.rules.common import keyword
from scaffold.source.edits import Author
from scaffold.source.tree import Source

ID = "SC208"
NAME = "splits"
SEVERITY = "W"

_SEEDERS = {
    "torch": {"torch.manual_seed", "torch.random.manual_seed", "lightning.seed_everything", "transformers.set_seed"},
    "numpy": {"numpy.random.seed", "lightning.seed_everything", "transformers.set_seed"},
    "random": {"random.seed", "lightning.seed_everything", "transformers.set_seed"},
}
_STATES = {
    "sklearn.model_selection.train_test_split", "sklearn.model_selection.KFold", "sklearn.model_selection.StratifiedKFold",
    "sklearn.model_selection.ShuffleSplit", "sklearn.model_selection.StratifiedShuffleSplit", "sklearn.utils.shuffle",
}  # fmt: skip
_FOLDS = {"sklearn.model_selection.KFold", "sklearn.model_selection.StratifiedKFold"}
_NUMPY = {"numpy.random.shuffle", "numpy.random.permutation", "numpy.random.choice"}
_RANDOM = {"random.shuffle", "random.sample"}
_PER_SAMPLE = {"__getitem__", "__getitems__", "__iter__", "forward", "collate_fn"}


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Seed each split in the smallest way its function offers."""
    facts = plan.facts
    ours = {e.node for e in data_draws(facts)}
    done: set[cst.CSTNode] = set()
    for event in facts.trace.of_kind("call"):
        node = event.node
        if not isinstance(node, cst.Call) or node in done or node in ours or not _splits(facts, event):
            continue
        done.add(node)
        if event.name == "torch.utils.data.random_split" or event.name == "torch.randperm":
            if not event.loops and keyword(node, "generator") is None and len(node.args) < (3 if event.name.endswith("split") else 99) and not _seeded(facts, event, "torch"):
                author.add_argument(event.source, node, f"generator={plan.torch(author, event.source)}.Generator().manual_seed(0)")
        elif event.name in _STATES:
            given = keyword(node, "random_state")
            if (given is None or event.source.code(given.value) == "None") and _shuffles(event) and not _seeded(facts, event, "numpy"):
                _state(author, event.source, node, given)
        elif event.name in _NUMPY and not event.loops and not _seeded(facts, event, "numpy"):
            _own_generator(author, event.source, node, "default_rng(0)")
        elif event.name in _RANDOM and not event.loops and not _seeded(facts, event, "random"):
            _own_generator(author, event.source, node, "Random(0)")
    return
    yield


def _splits(facts: Facts, event: Event) -> bool:
    """Whether a draw happens once, before training, in code that every rank must run alike."""
    if in_training(facts, event):
        return False
    return not any(isinstance(f.node, cst.FunctionDef) and f.node.name.value in _PER_SAMPLE for f in event.frame.stack())


def _shuffles(event: Event) -> bool:
    value = event.kwargs.get("shuffle")
    if event.name in _FOLDS:
        return value is not None and value.consts() != [False]
    return value is None or value.consts() != [False]


def _seeded(facts: Facts, event: Event, family: str) -> bool:
    """Whether the generator is seeded before, on every way here, with a number that all ranks share."""
    return any(
        e.order < event.order and not any(t.kind == "clock" for a in e.args for t in a.tags) and all(_certain(facts, branch, taken) for branch, taken in e.branches)
        for e in facts.trace.named(*_SEEDERS[family])
    )


def _certain(facts: Facts, branch: cst.CSTNode, taken: bool) -> bool:
    """Whether a branch is taken in every run: the main guard, or a test on a setting with a default."""
    if not isinstance(branch, cst.If):
        return True
    names = [n for n in _leaves(branch.test) if isinstance(n, (cst.Name, cst.Attribute))]
    if any(isinstance(n, cst.Name) and n.value == "__name__" for n in names):
        return True
    subject = names[0] if names else None
    if subject is None or not taken:
        return False
    value = facts.trace.value(subject)
    if value.consts():
        return all(value.consts())
    setting = setting_of(facts, value)
    return setting is not None and bool(setting.default)


def _leaves(test: cst.BaseExpression) -> list[cst.CSTNode]:
    if isinstance(test, cst.Comparison):
        return [test.left]
    return [test]


def _state(author: Author, source: Source, node: cst.Call, given: cst.Arg | None) -> None:
    if given is not None:
        author.replace(source, given.value, "0")
    else:
        author.add_argument(source, node, "random_state=0")


def _own_generator(author: Author, source: Source, node: cst.Call, maker: str) -> None:
    """``random.shuffle`` → ``random.Random(0).shuffle``: a generator that nothing else draws from."""
    if isinstance(node.func, cst.Attribute):
        author.replace(source, node.func, f"{source.code(node.func.value)}.{maker}.{node.func.attr.value}")
        return
    module = "random" if maker.startswith("Random") else "numpy.random"
    author.need(source, f"import {module.split('.')[0]}")
    author.replace(source, node.func, f"{module}.{maker}.{source.code(node.func)}")
