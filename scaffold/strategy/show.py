"""An estimate for people: bars against the GPU's memory, the lines behind them, and the decision."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from scaffold.strategy.choose import Choice
from scaffold.strategy.memory import Estimate
from scaffold.strategy.sizes import show_bytes

WIDTH = 40


def name_of(found: Estimate) -> str:
    """What an estimate is of."""
    return "DDP" if found.strategy == "ddp" else f"FSDP2 on {found.gpus} GPUs"


def text(choice: Choice, about: list[str]) -> str:
    """The estimate as a page of text. ``about`` says what the figures are of."""
    memory = choice.setup.gpu.memory
    lines = [*about, "", f"{'':18}{'model state':>12}{'expected':>12}{'safe side':>12}   of {show_bytes(memory)} on {choice.setup.gpu.name}"]
    scale = WIDTH / max(memory, *(e.high for e in choice.estimates))
    for found in choice.estimates:
        bar = _bar(found, memory, scale)
        lines.append(f"{name_of(found):18}{show_bytes(found.state):>12}{_or_open(found, found.expected):>12}{_or_open(found, found.high):>12}   {bar}")
    shown = next((e for e in choice.estimates if e.strategy == choice.strategy), choice.estimates[-1])
    lines += ["", f"{name_of(shown)}, for each GPU:"]
    lines += [f"  {part.name:20}{show_bytes(part.bytes):>10}   {part.formula}" for part in shown.parts]
    if not shown.complete:
        if shown.strategy == "fsdp2" and not any(part.name == "gathered blocks" for part in shown.parts):
            lines.append(f"  {'gathered blocks':20}{'?':>10}   the largest block, twice: known where a script is given")
        lines.append(f"  {'activations':20}{'?':>10}   give a batch's shape (--input) or read one (--probe)")
    return "\n".join([*lines, "", *decision(choice)])


def decision(choice: Choice) -> list[str]:
    """The decision with its arithmetic, a line each."""
    names = {"ddp": "DDP", "fsdp2": "FSDP2" + (" with activation checkpointing" if choice.checkpointing else ""), "none": "neither DDP nor FSDP2 on these GPUs"}
    lines = [f"decision: {names[choice.strategy]} on {choice.setup}", *(f"  {reason}" for reason in choice.reasons)]
    if choice.lora is not None:
        lines.append(f"  LoRA on the same GPUs (base frozen at 2 bytes a parameter, adapters trained): {show_bytes(choice.lora.low)} for each GPU")
    for setup, found in choice.instead:
        lines.append(f"  instead: {setup}, {name_of(found)}: {show_bytes(found.low)} of model state for each GPU")
    return lines


def _or_open(found: Estimate, value: int) -> str:
    return show_bytes(value) if found.complete else f"{show_bytes(value)}+"


def _bar(found: Estimate, memory: int, scale: float) -> str:
    full, margin, limit = round(found.expected * scale), round(found.high * scale), round(memory * scale)
    cells = ["█" if i < full else "░" if i < margin else " " for i in range(max(margin, limit) + 1)]
    cells[min(limit, len(cells) - 1)] = "|"
    return "".join(cells).rstrip()


def data(choice: Choice) -> dict[str, Any]:
    """The estimate as JSON; sizes in bytes."""

    def one(found: Estimate) -> dict[str, Any]:
        totals = {"state": found.state, "low": found.low, "expected": found.expected, "high": found.high, "activations_known": found.complete}
        return {"strategy": found.strategy, "gpus": found.gpus, **totals, "parts": [asdict(p) for p in found.parts]}

    return {
        "strategy": choice.strategy,
        "activation_checkpointing": choice.checkpointing,
        "gpu": {"name": choice.setup.gpu.name, "bytes": choice.setup.gpu.memory},
        "gpus": choice.setup.gpus,
        "nodes": choice.setup.nodes,
        "estimates": [one(found) for found in choice.estimates],
        "reasons": list(choice.reasons),
        "lora": one(choice.lora) if choice.lora else None,
        "instead": [{"setup": str(setup), **one(found)} for setup, found in choice.instead],
    }
