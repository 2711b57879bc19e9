"""Everything the checks look at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from scaffold.verify.launch import Outcome
from scaffold.verify.recorder import WITHOUT_GRADIENTS
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
    told: tuple[tuple[str, str], ...] = ()
    """Values of the command lines that differ: the original's, the converted script's."""

    @cached_property
    def other_estimates(self) -> str:
        """Why evaluation gives other numbers in a right conversion; empty where it need not.

        Without gradients the script draws random numbers for a batch, and a rank's batch is another than the original's.
        """
        for key, draws in self.original.draws.items():
            ours, theirs = (sum(math.prod(d["shape"]) for d in found) for found in (draws, self.ranks[0].draws.get(key, [])))
            if key.endswith(WITHOUT_GRADIENTS) and theirs < ours:
                name = key.removesuffix(WITHOUT_GRADIENTS)
                return f"evaluation draws at random ({name}): {theirs} numbers on a rank where the original draws {ours}"
        return ""

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
