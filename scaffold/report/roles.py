"""What each thing in a training script is, with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import libcst as cst

from scaffold.plan.outputs import outputs
from scaffold.plan.own_batching import data_draws
from scaffold.report.table import cut, table
from scaffold.roles import api, calls
from scaffold.roles.facts import Facts, loaders_of
from scaffold.roles.trace import Event
from scaffold.roles.values import LOCAL, Inst
from scaffold.source.tree import Source, dotted, walk

_LOADS = {"torch.load", "module.load_state_dict", "optimizer.load_state_dict", "scheduler.load_state_dict"}
_WIDTH = 80


@dataclass(frozen=True)
class Role:
    """One thing: its place, what it is, and how the script writes it."""

    file: str
    line: int
    what: str
    code: str


def roles(facts: Facts) -> dict[str, list[Role]]:
    """Everything that was found, by kind, each list in file order."""
    order = {source.name: i for i, source in enumerate(facts.project.sources)}
    return {
        title: sorted(set(find(facts)), key=lambda r: (order[r.file], r.line, r.what))
        for title, find in _KINDS.items()
    }


def as_dict(found: dict[str, list[Role]]) -> dict[str, list[dict[str, Any]]]:
    """Plain data for JSON."""
    return {title: [asdict(role) for role in listed] for title, listed in found.items()}


def as_text(found: dict[str, list[Role]]) -> str:
    """A table with one line a thing."""
    lines = [("", "what", "where", "code")]
    for title, listed in found.items():
        for index, role in enumerate(listed):
            lines.append((title if not index else "", role.what, f"{role.file}:{role.line}", role.code))
    empty = [title for title, listed in found.items() if not listed]
    shown = table(lines, wrap=False) if len(lines) > 1 else "nothing that trains was found"
    return f"{shown}\n\nnone found: {', '.join(empty)}" if empty and len(lines) > 1 else shown


def _role(source: Source, node: cst.CSTNode, what: str) -> Role:
    return Role(source.name, source.line(node), what, _code(source, node))


def _code(source: Source, node: cst.CSTNode) -> str:
    if isinstance(node, (cst.For, cst.CompFor)):
        text = f"for {source.code(node.target)} in {source.code(node.iter)}"
    elif isinstance(node, (cst.While, cst.If)):
        text = f"{'while' if isinstance(node, cst.While) else 'if'} {source.code(node.test)}"
    else:
        text = source.code(node)
    return cut(" ".join(text.split()), _WIDTH)


def _made(inst: Inst, what: str) -> Iterator[Role]:
    if inst.call is not None and inst.source is not None:
        yield _role(inst.source, inst.call, what)


def _models(facts: Facts) -> Iterator[Role]:
    for model in facts.models:
        owned = ", ".join(dict.fromkeys(_short(o.inst) for o in model.optimizers))
        norm = ", batch normalisation" if facts.has_batch_norm(model.inst) else ""
        yield from _made(model.inst, f"{model.name}{f', trained by {owned}' if owned else ''}{norm}")


def _short(inst: Inst) -> str:
    return inst.qualified.rpartition(".")[2]


def _optimizers(facts: Facts) -> Iterator[Role]:
    for optimizer in facts.optimizers:
        over = ", ".join(dict.fromkeys(_short(m) for m in optimizer.models))
        yield from _made(optimizer.inst, f"{_short(optimizer.inst)}{f' over {over}' if over else ''}")


def _by_role(kind: str) -> Callable[[Facts], Iterator[Role]]:
    def find(facts: Facts) -> Iterator[Role]:
        for event in facts.trace.of_kind("call"):
            for inst in event.result.insts():
                if calls.role(inst) == kind:
                    yield from _made(inst, _short(inst))

    return find


def _loaders(facts: Facts) -> Iterator[Role]:
    for loader in facts.loaders:
        yield _role(
            loader.source,
            loader.node,
            {"train": "training", "eval": "evaluation"}.get(loader.role, loader.role),
        )
    for data in facts.train_data:
        if isinstance(data, Inst) and data.qualified == "range":
            yield from _made(data, "training, slices of a range")
    for event in data_draws(facts):
        yield _role(event.source, event.node, "training, drawn by hand")


def _loops(facts: Facts) -> Iterator[Role]:
    stepping = {loop.node for event, _ in facts.steps for loop in event.loops}
    data = {loop.node for loop in facts.step_loops if loop.training}
    for event in facts.backwards:
        inner = [loop for loop in event.loops if loop.node in stepping]
        for loop in event.loops:
            if loop.node not in stepping:
                what = "step" if not stepping and loop.node in data else "micro-batch"
            elif loop is inner[-1] or loop.node in data or loaders_of(loop.value):
                what = "step"
            else:
                what = "epoch"
            yield _role(loop.source, loop.node, what)


def _evaluations(facts: Facts) -> Iterator[Role]:
    training = {loop.node for loop in facts.step_loops if loop.training}
    for loop in facts.step_loops:
        if loop.node not in training:
            yield _role(loop.source, loop.node, "evaluation")


def _checkpoints(facts: Facts) -> Iterator[Role]:
    for event in facts.trace.of_kind("call"):
        if event.name in {"torch.save", "torch.jit.save"}:
            yield _role(event.source, event.node, "save")
        elif event.name in _LOADS:
            yield _role(event.source, event.node, "load")


def _outputs(facts: Facts) -> Iterator[Role]:
    for output in outputs(facts):
        if output.kind != "save":
            yield _role(output.source, output.node, output.kind)


def _named(names: set[str]) -> Callable[[Facts], Iterator[Role]]:
    def find(facts: Facts) -> Iterator[Role]:
        for event in facts.trace.named(*names):
            yield _role(event.source, event.node, event.name)

    return find


def _steering(facts: Facts) -> Iterator[Role]:
    counters: set[tuple[Source, str]] = set()
    for event in facts.trace.of_kind("branch"):
        node = event.node
        if not isinstance(node, (cst.If, cst.While)):
            continue
        measured = event.value.tagged(*LOCAL)
        if measured:
            counters |= {(event.source, name) for name in _assigned(node)}
        counted = any((event.source, dotted(n)) in counters for n in walk(node.test))
        by = "metric" if measured or counted else "time" if event.value.tagged("clock") else ""
        what = _decides(facts, event) if by else ""
        if what:
            yield _role(event.source, node, f"{what}, by {by}")
    for event in facts.trace.named("scheduler.step"):
        if any(a.tagged(*LOCAL) for a in event.args):
            yield _role(event.source, event.node, "learning rate, by metric")


def _assigned(node: cst.If | cst.While) -> Iterator[str]:
    for inner in walk(node):
        targets = [t.target for t in inner.targets] if isinstance(inner, cst.Assign) else []
        if isinstance(inner, cst.AugAssign):
            targets = [inner.target]
        yield from (name for target in targets if (name := dotted(target)))


def _decides(facts: Facts, event: Event) -> str:
    body = list(walk(event.node))
    saved = {e.node for e in facts.trace.named("torch.save")}
    if any(isinstance(n, (cst.Break, cst.Return, cst.Raise)) for n in body) or isinstance(
        event.node, cst.While
    ):
        return "stop"
    if any(isinstance(n, cst.Continue) for n in body):
        return "skip"
    if any(n in saved for n in body) or any(_within(e, event.node) for e in facts.trace.named("torch.save")):
        return "save"
    return ""


def _within(event: Event, node: cst.CSTNode) -> bool:
    return any(branch is node for branch, _ in event.branches)


_KINDS: dict[str, Callable[[Facts], Iterator[Role]]] = {
    "models": _models,
    "optimizers": _optimizers,
    "schedulers": _by_role("scheduler"),
    "gradient scalers": _by_role("scaler"),
    "data": _loaders,
    "training loops": _loops,
    "evaluation loops": _evaluations,
    "checkpoints": _checkpoints,
    "outputs": _outputs,
    "seeds": _named(api.SEEDS),
    "splits": _named({*api.ENTROPY_SPLITS, *api.PERMUTATIONS}),
    "steering decisions": _steering,
}
