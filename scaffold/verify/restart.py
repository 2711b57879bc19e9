"""A second run from what a first one left: does the conversion resume from its own checkpoint, and can the original?

The converted script is stopped one step after its first checkpoint. Both scripts are then started again in the folder it left,
each in a copy of its own, and must come to the same end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaffold.verify import project, union
from scaffold.verify.case import Case, fails, holds, unknown
from scaffold.verify.checks.ending import failure
from scaffold.verify.checks.training import against_original
from scaffold.verify.launch import Outcome, run
from scaffold.verify.plan import Plan
from scaffold.verify.result import Check, Run
from scaffold.verify.trace import Trace, read

if TYPE_CHECKING:
    from scaffold.verify.comparison import Comparison

LOADS = ("resume.loads", "the original resumes from the converted script's checkpoint")
SAME = ("resume.same", "resumed from its checkpoint, it trains on as the original does")
HOW = "; where a run has to be told to resume, give its arguments with --resume-args"
_LOAD = re.compile(r"\b(torch|dcp|serialization)\s*\.\s*load\b|\bload_state_dict\b")


@dataclass(frozen=True)
class Restart:
    """How the two scripts are started again. ``plan`` is the converted run's; ``extra`` are the arguments that resume."""

    comparison: Comparison
    script: project.Script
    plan: Plan
    arguments: Sequence[str]
    extra: Sequence[str] | None

    def judged(self, case: Case) -> tuple[list[Check], list[Run]]:
        """The checks, and the runs they took."""
        runs: list[Run] = []
        return list(self._checks(case, runs)), runs

    def _checks(self, case: Case, runs: list[Run]) -> Iterator[Check]:
        reason = self._hindered(case)
        if not reason:
            left = self._interrupted(case, runs)
            before = {e["path"] for rank in case.ranks for e in rank.of("write")}
            original, outcome = self._again(left, self.comparison.original, runs)
            reason = "" if outcome.codes[0] == 0 else self._own_fault(case, runs)
            if not reason and outcome.codes[0] != 0:
                yield fails(*LOADS, failure(original, outcome.codes[0]))
            elif not reason and not resumed(original, before):
                reason = f"a second run loads nothing that the first saved{HOW}"
        if reason:
            yield unknown(*LOADS, reason)
            yield unknown(*SAME, reason)
            return
        if outcome.codes[0] == 0:
            yield holds(*LOADS, f"{', '.join(sorted(resumed(original, before))[:3])}, then {len(original.steps)} steps")
        ranks, ended = self._again_in_ranks(left, runs)
        yield self._same(case, before, (original, outcome), ranks, ended, left, runs)

    def _hindered(self, case: Case) -> str:
        if case.crashed or case.outcome.hang:
            return "the run did not come to its end"
        if not any(rank.of("save") for rank in case.ranks):
            return "nothing is saved with torch.save"
        if not _LOAD.search(self.plan.source()):
            return "the script loads no checkpoint"
        return ""

    def _interrupted(self, case: Case, runs: list[Run]) -> Path:
        """The folder of a converted run that ends one step after the first save, or at its end where there is none before."""
        total = len(case.ranks[0].steps)
        points = sorted({e["n"] for rank in case.ranks for e in rank.of("save") if 0 < e["n"] < total})
        if not points:
            return case.root_converted
        plan = replace(self.comparison.plan("interrupted", self.script, True), share=self.plan.share, steps=points[0] + 1)
        outcome = run(plan, self.arguments, self._patience)
        runs.append(_told("converted, interrupted", plan, outcome))
        return Path(plan.root)

    @property
    def _patience(self) -> float:
        return self.comparison.single[1].seconds + self.comparison.timeout

    def _again(self, left: Path, script: project.Script, runs: list[Run], replay: Path | None = None) -> tuple[Trace, Outcome]:
        plan = self.comparison.plan("resumed-original", script, False, left)
        plan = replace(plan, replay=str(replay) if replay else None)
        outcome = run(plan, [*self.comparison.original_args, *(self.extra or ())], self._patience)
        runs.append(_told("original, resumed", plan, outcome))
        return read(Path(plan.out), 0), outcome

    def _own_fault(self, case: Case, runs: list[Run]) -> str:
        """Why a failure to resume is the original's own: it fails on its own checkpoint too."""
        trace, outcome = self._again(case.root_original, self.comparison.original, runs)
        if outcome.codes[0] == 0:
            return ""
        return f"the original does not resume from its own checkpoint: {failure(trace, outcome.codes[0])}"

    def _again_in_ranks(self, left: Path, runs: list[Run]) -> tuple[list[Trace], Outcome]:
        plan = replace(self.comparison.plan("resumed", self.script, True, left), share=self.plan.share)
        outcome = run(plan, [*self.arguments, *(self.extra or ())], self._patience)
        runs.append(_told("converted, resumed", plan, outcome))
        return [read(Path(plan.out), rank) for rank in range(plan.world)], outcome

    def _same(
        self,
        case: Case,
        before: set[str],
        again: tuple[Trace, Outcome],
        ranks: list[Trace],
        ended: Outcome,
        left: Path,
        runs: list[Run],
    ) -> Check:
        if ended.hang:
            return fails(*SAME, ended.hang)
        faults = [f"rank {t.rank}: {why}" for t, code in zip(ranks, ended.codes, strict=True) if (why := failure(t, code))]
        if faults:
            return fails(*SAME, faults[0])
        original, outcome = again
        if resumed(original, before) and not any(resumed(rank, before) for rank in ranks):
            return fails(*SAME, "the original loads a checkpoint when it is started again, the converted script does not")
        unmatched = union.matched(original, ranks)
        if unmatched:
            path = Path(self.plan.out).parent / "resumed.json"
            union.write_replay(original, ranks, path)
            original, outcome = self._again(left, self.comparison.original, runs, path)
            unmatched = union.matched(original, ranks) if outcome.codes[0] == 0 else unmatched
        second = replace(
            case, original=original, outcome_original=outcome, ranks=ranks, outcome=ended, reference=original, unmatched=unmatched
        )
        return _verdict(second, len(original.steps), [len(rank.steps) for rank in ranks])


def _verdict(case: Case, ours: int, theirs: list[int]) -> Check:
    if theirs != [ours] * len(theirs) and not case.unmatched:
        return fails(*SAME, f"{theirs} steps by rank after the restart, the original takes {ours}")
    if ours == 0 and not any(theirs):
        return unknown(*SAME, "no step is left to take after the restart")
    found = list(against_original(case))
    worst = min(found, key=lambda check: ("fails", "can't tell", "holds").index(check.verdict))
    return Check(*SAME, worst.verdict, f"{ours} steps after the restart: {worst.evidence}")


def resumed(trace: Trace, before: set[str]) -> set[str]:
    """Files of an earlier run that this one loads before it has written them anew."""
    found: set[str] = set()
    written: set[str] = set()
    for event in trace.events:
        if event["e"] == "write":
            written.add(event["path"])
        elif event["e"] == "load" and event["path"] in before - written:
            found.add(event["path"])
    return found


def _told(name: str, plan: Plan, outcome: Outcome) -> Run:
    first: Any = read(Path(plan.out), 0)
    return Run(name, round(outcome.seconds, 2), len(first.steps), len(outcome.codes), (int(first.end.get("peak", 0)),))
