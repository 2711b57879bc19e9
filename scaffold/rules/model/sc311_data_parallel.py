"""Take ``nn.DataParallel`` out: each process has one GPU now.

Left in place it would copy the model to every GPU in every process. The wrapper goes, and with it ``.module``. Checkpoints keep the names
that the script gave them: where it saved the wrapper's ``state_dict``, whose keys begin with ``module.``, they still do, and either kind is
loaded. The batch size that was divided among the GPUs is now that of each: ``--batch global`` keeps it.

Before::

    model = nn.DataParallel(model, device_ids=[0, 1])
    torch.save(model.module.state_dict(), path)

After::

    torch.save(model.state_dict(), path)

Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from scaffold.plan import Plan
from scaffold.roles import calls
from scaffold.roles.trace import Event
from scaffold.roles.values import Inst
from scaffold.rules import Diagnostic
from scaffold.source.edits import Author
from scaffold.source.tree import Source, walk

ID = "SC311"
NAME = "data-parallel"
SEVERITY = "W"

_WRAPPER = "torch.nn.DataParallel"
_FUNCTION = {"torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel"}


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Remove the wrapper and what only it needed."""
    events = {e.node: e for e in plan.facts.trace.named(_WRAPPER, *_FUNCTION) if isinstance(e.node, cst.Call) and e.node.args}
    wrapped: set[Inst] = set()
    for event in events.values():
        if event.name == _WRAPPER:
            wrapped |= {plan.facts.trace.root(i) for i in event.args[0].insts()}
            _unwrap(author, event)
            yield Diagnostic.at(
                ID, "note", event.source, event.node, "nn.DataParallel divided each batch among the GPUs; now each GPU gets a batch of that size",
                "keep the total with --batch global, or think of the learning rate (--scale-lr)",
            )  # fmt: skip
        else:
            _call_directly(author, event)
    if wrapped:
        for source in plan.facts.project.sources:
            for node in source.nodes:
                if isinstance(node, cst.Attribute) and node.attr.value == "module" and _is(plan, node.value, wrapped) and not _asked(source, node):
                    author.splice(source, source.outer_span(node.value)[1], source.span(node)[1], "")
        _keys(plan, author, [e for e in events.values() if e.name == _WRAPPER], wrapped)


def _is(plan: Plan, node: cst.CSTNode, insts: set[Inst]) -> bool:
    return any(plan.facts.trace.root(i) in insts for i in plan.facts.trace.value(node).insts() if calls.role(i) == "module")


def _unwrap(author: Author, event: Event) -> None:
    """``x = nn.DataParallel(x)`` goes; elsewhere the model stands for the call."""
    source, call = event.source, event.node
    assert isinstance(call, cst.Call)
    inner = call.args[0].value
    parent = source.parents[call]
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1 and source.code(parent.targets[0].target) == source.code(inner):
        author.remove(source, parent)
        return
    start, end = source.outer_span(call)
    first, last = source.outer_span(inner)
    loose = isinstance(inner, (cst.IfExp, cst.BinaryOperation, cst.BooleanOperation, cst.Lambda)) and not inner.lpar
    author.splice(source, start, first, "(" if loose else "")
    author.splice(source, last, end, ")" if loose else "")


def _call_directly(author: Author, event: Event) -> None:
    """``data_parallel(module, inputs, gpus)`` becomes ``module(inputs)``."""
    source, call = event.source, event.node
    assert isinstance(call, cst.Call)
    if len(call.args) > 1:
        inputs = source.code(call.args[1].value)
        author.replace(source, call, f"{source.code(call.args[0].value)}({'*' if isinstance(call.args[1].value, cst.Tuple) else ''}{inputs})")


def _asked(source: Source, node: cst.CSTNode) -> bool:
    """Whether the script asks for ``.module`` first, so that it is not reached without the wrapper."""
    return any(isinstance(a, (cst.If, cst.IfExp)) and any(w in source.code(a.test) for w in ('"module"', "'module'", "DataParallel")) for a in source.ancestors(node))


def _keys(plan: Plan, author: Author, made: list[Event], wrapped: set[Inst]) -> None:
    """Keep the names of the entries in checkpoints of the wrapper itself."""
    first = min(e.order for e in made)
    test = _condition(made[0])
    done: set[cst.CSTNode] = set()
    for event in plan.facts.trace.of_kind("call"):
        node, source = event.node, event.source
        if event.order < first or node in done or not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or not _is(plan, node.func.value, wrapped):
            continue
        if _is_bare(source, node.func.value):
            continue
        done.add(node)
        if node.func.attr.value == "state_dict" and _leaves(plan, source, node):
            name = _parallel(plan, author, source)
            loose = test and not isinstance(source.parents[node], (cst.Arg, cst.Assign, cst.DictElement))
            text = f" if {test} else {source.code(node)}" if test else ""
            author.wrap(source, node, f"{'(' if loose else ''}{name}(", f"){text}{')' if loose else ''}")
        elif node.func.attr.value == "load_state_dict" and node.args:
            author.wrap(source, node.args[0].value, f"{_bare(plan, author, source)}(", ")")


def _is_bare(source: Source, node: cst.BaseExpression) -> bool:
    """Whether an expression is ``x.module``, or a variable that got it."""
    if isinstance(node, cst.Attribute):
        return node.attr.value == "module"
    assigned = (n for n in walk(source.function(node)) if isinstance(n, cst.Assign) and any(source.code(t.target) == source.code(node) for t in n.targets))
    return any(isinstance(x, cst.Attribute) and x.attr.value == "module" for n in assigned for x in walk(n.value))


def _condition(event: Event) -> str:
    """The script's test for more than one GPU, where it can be asked again: it reads settings and devices only."""
    for node, side in reversed(event.branches):
        if isinstance(node, cst.If) and side and "__name__" not in event.source.code(node.test):
            plain = all(isinstance(n, (cst.Name, cst.Attribute, cst.Call, cst.Comparison, cst.ComparisonTarget, cst.SimpleString, cst.Integer)) for n in _leaves_of(node.test))
            return event.source.code(node.test) if plain else ""
    return ""


def _leaves_of(test: cst.BaseExpression) -> Iterator[cst.CSTNode]:
    return (n for n in walk(test) if isinstance(n, (cst.BaseExpression, cst.ComparisonTarget)))


def _leaves(plan: Plan, source: Source, node: cst.CSTNode) -> bool:
    """Whether a state is written to a file, and not copied or compared in memory."""
    return any(isinstance(a, (cst.Dict, cst.Call, cst.Assign)) for a in source.ancestors(node) if not isinstance(a, cst.FunctionDef))


def _parallel(plan: Plan, author: Author, source: Source) -> str:
    name = plan.free(source, "parallel_keys")
    author.helper(
        source,
        name,
        f'''def {name}(state):
    """A state with the keys that nn.DataParallel gives it: old and new checkpoints stay exchangeable."""
    return {{f"module.{{key}}": value for key, value in state.items()}}
''',
    )
    return name


def _bare(plan: Plan, author: Author, source: Source) -> str:
    name = plan.free(source, "bare_keys")
    author.helper(
        source,
        name,
        f'''def {name}(state):
    """A state without the ``module.`` that nn.DataParallel puts before its keys."""
    return {{key.removeprefix("module."): value for key, value in state.items()}}
''',
    )
    return name
