"""The verdicts of a comparison."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Verdict = Literal["holds", "fails", "can't tell"]


@dataclass(frozen=True)
class Check:
    """One question about the conversion, with its answer and what was seen."""

    id: str
    title: str
    verdict: Verdict
    evidence: str


@dataclass(frozen=True)
class Curves:
    """Figures per optimizer step: the two losses (mean over ranks), and the relative gradient difference."""

    original: tuple[float, ...] = ()
    converted: tuple[float, ...] = ()
    gradient_difference: tuple[float, ...] = ()


@dataclass(frozen=True)
class Run:
    """One run: how long it took in seconds, its optimizer steps, its peak memory in bytes per process."""

    name: str
    seconds: float
    steps: int
    processes: int
    peak_bytes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Report:
    """Everything a comparison found. ``notes`` say what was arranged so that the runs can be compared.

    ``stacks`` are the Python stacks of the ranks of a run that had to be stopped.
    """

    original: str
    converted: str
    nproc: int
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()
    curves: Curves = field(default_factory=Curves)
    stacks: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no check fails. A check that can't tell does not fail."""
        return not self.failures

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that fail."""
        return tuple(check for check in self.checks if check.verdict == "fails")

    def check(self, id: str) -> Check:
        """The check with this ID. Raises ``KeyError`` where there is none."""
        for check in self.checks:
            if check.id == id:
                return check
        raise KeyError(id)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"ok": self.ok, **asdict(self)}
