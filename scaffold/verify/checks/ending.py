"""How the runs ended."""

from __future__ import annotations

from collections.abc import Iterator

from scaffold.verify.case import Case, fails, holds, judged, unknown
from scaffold.verify.result import Check
from scaffold.verify.trace import Trace


def failure(trace: Trace, code: int | None) -> str:
    """Why a process did not come to a good end; empty where it did."""
    end = trace.end
    if end.get("how") == "error":
        where = f" at {end['place']}" if end["place"] else ""
        return f"{end['message']}{where}"
    if end and code not in (0, None):
        return f"exit code {code} ({end['how']})"
    if not end:
        last = trace.stderr.strip().splitlines()[-1:] or [""]
        signal = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return f"ended without reaching the end of the script, {signal} {last[0]}".strip()
    return ""


def original(trace: Trace, code: int | None, stopped: str) -> Check:
    """Whether the original runs to its end."""
    title = "the original runs"
    reason = f"stopped: {stopped}" if stopped else failure(trace, code)
    if reason:
        return fails("run.original", title, reason)
    return holds("run.original", title, f"{len(trace.steps)} optimizer steps, {trace.end['how']}")


def ending(case: Case) -> Iterator[Check]:
    """No hang, no error, process group and workers gone."""
    hang = case.outcome.hang
    title = "no rank hangs"
    yield fails("run.hang", title, hang) if hang else holds("run.hang", title, "all ranks came to an end")
    title = "every rank ends without an error"
    faults = []
    if case.outcome.stopped and not hang and case.outcome.stopped != "a rank failed":
        faults.append(f"stopped: {case.outcome.stopped}")
    for trace, code in zip(case.ranks, case.outcome.codes, strict=True):
        reason = "" if hang and code is None else failure(trace, code)
        if reason:
            faults.append(f"rank {trace.rank}: {reason}")
    if hang and not faults:
        yield unknown("run.converted", title, "the run hung")
    else:
        yield judged("run.converted", title, faults, f"{len(case.ranks)} ranks ended")
    yield from _left_behind(case)


def _left_behind(case: Case) -> Iterator[Check]:
    title = "the process group is destroyed at the end"
    if case.crashed or case.outcome.hang:
        yield unknown("run.group", title, "the run did not come to its end")
        yield unknown("run.workers", "no worker process is left", "the run did not come to its end")
        return
    stopped = any(rank.end["how"] == "stopped" for rank in case.ranks)
    alive = [f"rank {rank.rank} still holds it" for rank in case.ranks if rank.end["group"]]
    if not any(e["kind"] == "init_process_group" for rank in case.ranks for e in rank.of("enter")):
        yield fails("run.group", title, "no process group was made: the processes train independently")
    elif stopped:
        yield unknown("run.group", title, "the run was stopped before its end")
    else:
        yield judged("run.group", title, alive, "gone on every rank")
    left = [f"rank {r.rank}: {', '.join(r.end['children'])}" for r in case.ranks if r.end["children"]]
    allowed = bool(case.original.end.get("children"))
    title = "no worker process is left"
    if stopped:
        yield unknown("run.workers", title, "the run was stopped before its end")
    else:
        yield judged("run.workers", title, [] if allowed else left, "none")


def collectives(case: Case) -> Iterator[Check]:
    """Whether all ranks called the same collectives in the same order."""
    title = "all ranks call the same collectives"
    ignored = ("backward", "DDP forward", "send", "recv")
    lists = [[e for e in rank.of("enter") if e["kind"] not in ignored] for rank in case.ranks]
    for number, calls in enumerate(zip(*lists, strict=False)):
        if len({c["kind"] for c in calls}) > 1:
            told = ", ".join(f"rank {i} {c['kind']} at {c['place']}" for i, c in enumerate(calls))
            yield fails("run.collectives", title, f"call {number}: {told}")
            return
    counts = [len(calls) for calls in lists]
    if len(set(counts)) > 1:
        most = counts.index(max(counts))
        extra = lists[most][min(counts)]
        told = f"rank {most} alone calls {extra['kind']} at {extra['place']} (calls by rank: {counts})"
        yield fails("run.collectives", title, told)
    else:
        yield holds("run.collectives", title, f"{counts[0]} calls on every rank")
