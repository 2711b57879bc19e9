"""What becomes of the batch size and the learning rate, in words."""

from __future__ import annotations

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.settings import setting_of
from scaffold.roles.facts import Loader
from scaffold.roles.values import Val

_EXAMPLE = 2


def batch_line(plan: Plan) -> str:
    """The batch of one optimizer step over all GPUs, for N of them and for two."""
    sizes = list(dict.fromkeys(s for loader in plan.train_loaders if (s := _size(plan, loader))))
    if not sizes:
        if plan.options.batch == "global":
            return "the script's batch is divided: each of N GPUs draws 1/N of it"
        return "each GPU draws the script's batch, so N GPUs train on N times as many samples a step"
    return "; ".join(_line(plan, text, number) for text, number in sizes)


def _line(plan: Plan, text: str, number: int | None) -> str:
    shown = text if number is None or text == str(number) else f"{text} = {number}"
    if plan.options.batch == "global":
        each = f"; with {_EXAMPLE} GPUs {number // _EXAMPLE} each" if number else ""
        return f"{shown} in all: each of N GPUs takes 1/N of it{each}"
    if number is None:
        return f"{shown} per GPU: N GPUs train on N x {text} samples a step"
    return (
        f"{shown} per GPU: N GPUs train on N x {number} samples a step ({_EXAMPLE} GPUs: {_EXAMPLE * number})"
    )


def _size(plan: Plan, loader: Loader) -> tuple[str, int | None] | None:
    """How the script writes a loader's batch size, and its number if that is known."""
    value = loader.inst.kwargs.get("batch_size") or (
        loader.inst.args[1] if len(loader.inst.args) > 1 else None
    )
    node = _argument(loader)
    if value is None:
        return None if "batch_sampler" in loader.inst.kwargs else ("1", 1)
    number = _number(plan, value)
    if node is not None:
        return loader.source.code(node), number
    return ("batch_size", number) if number is None else (str(number), number)


def _argument(loader: Loader) -> cst.BaseExpression | None:
    for index, arg in enumerate(loader.node.args):
        if arg.star:
            return None
        if arg.keyword.value == "batch_size" if arg.keyword is not None else index == 1:
            return arg.value
    return next(
        (a.value for a in loader.node.args if a.keyword is not None and a.keyword.value == "batch_size"), None
    )


def _number(plan: Plan, value: Val) -> int | None:
    found: set[object] = set(value.consts())
    setting = setting_of(plan.facts, value)
    if setting is not None:
        found.add(setting.default)
    numbers = {n for n in found if isinstance(n, int) and not isinstance(n, bool)}
    return numbers.pop() if len(numbers) == 1 and len(found) == 1 else None


def rate_line(plan: Plan) -> str:
    """What happens to the learning rate, and what to think of."""
    if plan.options.scale_lr != "none":
        factor = "N" if plan.options.scale_lr == "linear" else "the square root of N"
        return f"multiplied by {factor}, the number of GPUs (--scale-lr {plan.options.scale_lr})"
    if plan.options.batch == "global":
        return "unchanged, as is the batch of a step: the steps are those of one GPU"
    return (
        "unchanged; a step's batch is N times larger and an epoch has 1/N as many steps: "
        "try --scale-lr linear (or sqrt for Adam), or keep the batch with --batch global"
    )
