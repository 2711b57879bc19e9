"""The report of a comparison: for the terminal, as Markdown, as one HTML file."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from scaffold.templates import render
from scaffold.verify.result import Report

MARKS = {"holds": "holds", "fails": "FAILS", "can't tell": "can't tell"}
WIDTH, HEIGHT = 640, 220  # of a plot, in pixels


def verdict(report: Report) -> str:
    """The result in one line."""
    fails = len(report.failures)
    unknown = sum(check.verdict == "can't tell" for check in report.checks)
    holds = len(report.checks) - fails - unknown
    start = f"{fails} checks fail" if fails != 1 else "1 check fails"
    start = start if fails else "no check fails"
    return f"{start}, {holds} hold, {unknown} can't tell"


def table(report: Report, width: int = 100) -> str:
    """A table for the terminal, ``width`` columns wide, faults first."""
    order = {"fails": 0, "can't tell": 1, "holds": 2}
    lines = [f"{report.original} in one process, {report.converted} in {report.nproc}", ""]
    wide = max(len(check.id) for check in report.checks)
    for check in sorted(report.checks, key=lambda c: order[c.verdict]):
        head = f"{MARKS[check.verdict]:<10}  {check.id:<{wide}}  "
        text = f"{check.title}: {check.evidence}"
        lines += textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * len(head))
    lines.append("")
    for run in report.runs:
        peak = f", at most {max(run.peak_bytes) / 2**20:.0f} MiB each" if any(run.peak_bytes) else ""
        lines.append(f"{run.name}: {run.steps} optimizer steps, {run.seconds:.1f} s{peak}")
    lines += [f"note: {note}" for note in report.notes]
    lines += ["", verdict(report)]
    for rank, stack in enumerate(report.stacks):
        lines += ["", f"stack of rank {rank}:", *stack.strip().splitlines()]
    return "\n".join(lines)


def markdown(report: Report) -> str:
    """The report as Markdown."""
    return render("report/verify.md", report=report, verdict=verdict(report))


def html(report: Report) -> str:
    """The report as one HTML file that needs nothing else."""
    curves = report.curves
    losses = plot([("original", curves.original), ("converted", curves.converted)])
    gradients = plot([("gradient difference", curves.gradient_difference)])
    return render("report/verify.html", report=report, verdict=verdict(report), losses=losses, gradients=gradients)


def plot(series: Sequence[tuple[str, Sequence[float]]]) -> dict[str, Any] | None:
    """Polylines in pixels, with the ranges of both axes; ``None`` where there is nothing to draw."""
    finite = [value for _, values in series for value in values if math.isfinite(value)]
    length = max((len(values) for _, values in series), default=0)
    if not finite or length < 2:
        return None
    low, high = min(finite), max(finite)
    span = (high - low) or 1.0

    def points(values: Sequence[float]) -> str:
        return " ".join(
            f"{i * WIDTH / (length - 1):.1f},{HEIGHT - (value - low) / span * HEIGHT:.1f}"
            for i, value in enumerate(values)
            if math.isfinite(value)
        )

    lines = [{"name": name, "points": points(values)} for name, values in series]
    return {"lines": lines, "low": low, "high": high, "steps": length, "width": WIDTH, "height": HEIGHT}
