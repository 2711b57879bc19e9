"""A measurement as plain data and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from scaffold.cost.measured import SCHEMA
from scaffold.cost.model import BANDWIDTH, SHARDED, efficiency
from scaffold.cost.numbers import Range, percent, spread
from scaffold.cost.timed import Run, Wanted, devices, results
from scaffold.report.table import paragraph, table

MODELLED = (2, 4, 8)
"""Numbers of machines that the model is asked for."""


def link(bandwidth: str | None) -> Range:
    """Gbit/s between machines, as given or as assumed."""
    return spread(bandwidth, "--bandwidth") if bandwidth is not None else BANDWIDTH


def data(wanted: Wanted, runs: Sequence[Run], gbit: Range, today: date) -> dict[str, Any]:
    """What ``scaffold measure --json`` prints; seconds, bytes, shares as numbers."""
    gpus, device = devices()
    sizes = results(runs)
    last = max(runs, key=lambda run: run.nproc)
    notes = []
    if not gpus:
        notes.append("on the CPU with Gloo, as there is no GPU: it tells how the script scales on this machine, not on GPUs")
    if len(runs) > 1 and not all(run.elements for run in runs):
        notes.append("what a step takes in is unknown: each process is taken to do the same work at every size")
    return {
        "schema": SCHEMA,
        "script": str(wanted.script),
        "date": today.isoformat(),
        "device": device,
        "warmup": wanted.warmup,
        "gradient_bytes": last.gradients,
        "sharded": last.sharded,
        "sizes": sizes,
        "model": _model(last, gbit) if len(runs) == 1 else [],
        "bandwidth_gbit": {name: float(getattr(gbit, name)) for name in ("low", "expected", "high")},
        "notes": notes,
    }


def _model(run: Run, gbit: Range) -> list[dict[str, Any]]:
    traffic = Decimal(run.gradients) * (SHARDED if run.sharded else 1)
    step = Decimal(str(run.step()["expected"]))
    found = [(n, efficiency(step, traffic, n, gbit)) for n in MODELLED]
    return [{"nodes": n, "efficiency": {k: float(getattr(e, k)) for k in ("low", "expected", "high")}} for n, e in found]


def text(found: Mapping[str, Any]) -> str:
    """A measurement for the terminal."""
    lines = [("processes", "step", "spread", "samples/s", "efficiency", "spread")]
    for size in found["sizes"]:
        step, share = size["step_seconds"], size["efficiency"]
        rate = f"{size['samples_per_second']['expected']:,.0f}" if size["samples_per_second"] else "unknown"
        shares = (_percent(share["expected"]), f"{_percent(share['low'])} to {_percent(share['high'])}")
        lines.append((str(size["nproc"]), _ms(step["expected"]), f"{_ms(step['low'])} to {_ms(step['high'])}", rate, *shares))
    parts = [f"{found['script']} ({found['device']}), {found['warmup']} steps of warm-up left out", table(lines)]
    if found["model"]:
        parts.append(_modelled(found))
    parts += [paragraph(f"Note: {note}.") for note in found["notes"]]
    return "\n\n".join(parts)


def _modelled(found: Mapping[str, Any]) -> str:
    gbit = found["bandwidth_gbit"]
    head = f"By a model, not measured: {found['gradient_bytes']:,} bytes of gradients all-reduced in each step at {gbit['low']:g} to {gbit['high']:g} Gbit/s"
    lines = [("machines", "efficiency", "range")]
    for line in found["model"]:
        share = line["efficiency"]
        lines.append((str(line["nodes"]), _percent(share["expected"]), f"{_percent(share['low'])} to {_percent(share['high'])}"))
    return f"{paragraph(head)}\n{table(lines)}"


def _percent(value: float) -> str:
    return percent(str(value))


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"
