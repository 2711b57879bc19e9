"""Everything the checks look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scaffold.verify.launch import Outcome
from scaffold.verify.result import Check, Verdict
from scaffold.verify.trace import Trace


@dataclass(frozen=True)
class Case:
    """The runs. ``reference`` is the original on the ranks' own batches where ``unmatched`` is empty.

    ``unmatched`` says why no run of the original trained on what the ranks trained on.
    """

    original: Trace
    outcome_original: Outcome
    ranks: Sequence[Trace]
    outcome: Outcome
    reference: Trace
    unmatched: str
    root_original: Path
    root_converted: Path
    steps: int | None

    @property
    def crashed(self) -> bool:
        """Whether a rank did not get to the end of the script."""
        return any(
            rank.end.get("how") not in ("finished", "stopped", "exit", "os._exit") for rank in self.ranks
        )


def holds(id: str, title: str, evidence: str) -> Check:
    """A check that holds."""
    return Check(id, title, "holds", evidence)


def fails(id: str, title: str, evidence: str) -> Check:
    """A check that fails."""
    return Check(id, title, "fails", evidence)


def unknown(id: str, title: str, evidence: str) -> Check:
    """A check that can't tell, with the reason."""
    return Check(id, title, "can't tell", evidence)


def judged(id: str, title: str, faults: Sequence[str], evidence: str) -> Check:
    """Fails with the first faults, or holds with the evidence."""
    verdict: Verdict = "fails" if faults else "holds"
    more = f" (and {len(faults) - 3} more)" if len(faults) > 3 else ""
    return Check(id, title, verdict, "; ".join(faults[:3]) + more if faults else evidence)
