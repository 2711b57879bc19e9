"""Optimizer steps: between the ranks, and against the single process."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from scaffold.verify.case import Case, fails, holds, judged, unknown
from scaffold.verify.result import Check
from scaffold.verify.trace import Event, Trace

RANKS = 1e-5  # relative difference of gradients or parameters from which ranks disagree
GRADIENT = 2e-3  # relative difference to the single process's gradient that rounding does not explain at once
MOVED = 2e-2  # final difference, relative to the way the parameters went
FINAL = 1e-4  # final difference of single values


def distance(a: Event, b: Event) -> float:
    """The estimated distance of two sketched tensors (root mean square of the projections' differences)."""
    if a["crc"] == b["crc"]:
        return 0.0
    squares = [(x - y) ** 2 for x, y in zip(a["proj"], b["proj"], strict=True)]
    total = math.sqrt(sum(squares) / len(squares))
    return total if math.isfinite(total) else math.inf


def relative(a: Event, b: Event) -> float:
    """``distance`` divided by the larger norm."""
    size = max(a["norm"], b["norm"])
    if math.isnan(size):
        return 0.0 if math.isnan(a["norm"]) and math.isnan(b["norm"]) else math.inf
    return distance(a, b) / size if size > 0 else 0.0


def between_ranks(case: Case) -> Iterator[Check]:
    """Whether gradients and parameters are the same on all ranks after every step."""
    titles = {"grad": ("ranks.gradients", "gradients are equal on all ranks"),
              "param": ("ranks.parameters", "parameters are equal on all ranks")}  # fmt: skip
    steps = list(zip(*(rank.steps for rank in case.ranks), strict=False))
    for what, (id, title) in titles.items():
        if not steps:
            yield unknown(id, title, "no optimizer step was seen on every rank")
        else:
            yield _between(id, title, what, steps)


def _between(id: str, title: str, what: str, steps: Sequence[tuple[Event, ...]]) -> Check:
    worst = 0.0
    for number, events in enumerate(steps):
        for rank, event in enumerate(events[1:], 1):
            gap = relative(events[0][what], event[what])
            worst = max(worst, gap)
            if gap > RANKS:
                culprit = _culprit(events[0][what], event[what]) if what == "grad" else ""
                return fails(id, title, f"step {number}: rank 0 and rank {rank} differ by {gap:.1%}{culprit}")
            if what == "grad" and event[what]["missing"] != events[0][what]["missing"]:
                return fails(id, title, f"step {number}: ranks have gradients for different parameters")
    return holds(id, title, f"{len(steps)} steps, largest relative difference {worst:.1e}")


def _culprit(a: Event, b: Event) -> str:
    gaps = [abs(x - y) for x, y in zip(a["norms"], b["norms"], strict=False)]
    return f", most in parameter {gaps.index(max(gaps))}" if gaps and max(gaps) > 0 else ""


def schedule(case: Case) -> Iterator[Check]:
    """Number of steps and learning rates; decisions that all ranks must take alike."""
    counts = [len(rank.steps) for rank in case.ranks]
    yield from _decisions(case, counts)
    ours = case.reference.steps
    title = "as many optimizer steps as the original"
    expected = len(case.original.steps)
    if case.outcome.stopped or case.crashed:
        yield unknown("original.steps", title, "the run did not come to its end")
    elif counts[0] == expected:
        yield holds("original.steps", title, f"{expected} steps")
    elif case.reference is not case.original and counts[0] == len(ours) and not _same_batch(case):
        yield holds(
            "original.steps", title, f"{counts[0]} steps at the global batch (the original's own: {expected})"
        )
    elif case.reference is not case.original and counts[0] == len(ours) and _same_passes(case):
        yield holds(
            "original.steps", title, f"{counts[0]} steps, as on the same draws in one process (on its own draws: {expected})"
        )
    else:
        yield fails("original.steps", title, f"{counts[0]} steps, the original takes {expected}")
    title = "learning rates as the original's"
    theirs = case.ranks[0].steps
    if not ours or not theirs:
        yield unknown("original.rates", title, "no optimizer step was seen")
        return
    faults = [
        f"step {i}: {b['lr']} instead of {a['lr']}"
        for i, (a, b) in enumerate(zip(ours, theirs, strict=False))
        if any(abs(x - y) > 1e-6 * max(abs(x), abs(y)) for x, y in zip(a["lr"], b["lr"], strict=False))
        or len(a["lr"]) != len(b["lr"])
    ]
    if faults and _plateau(case):
        yield unknown("original.rates", title, f"they follow a metric that differs: {faults[0]}")
    else:
        yield judged("original.rates", title, faults, f"equal at {min(len(ours), len(theirs))} steps")


def _same_batch(case: Case) -> bool:
    pairs = zip(case.original.train_loaders.values(), case.ranks[0].train_loaders.values(), strict=False)
    return all(b.facts["share"] is not None or a.facts["batch"] != b.facts["batch"] for a, b in pairs)


def _same_passes(case: Case) -> bool:
    """Whether each finished pass over the training data has as many batches as the original's: the runs differ in passes alone."""
    ours, theirs = (
        [{len(p.batches) for p in loader.passes if p.finished} for loader in trace.train_loaders.values()]
        for trace in (case.original, case.ranks[0])
    )
    return bool(ours) and ours == theirs and all(len(lengths) == 1 for lengths in ours)


def _plateau(case: Case) -> bool:
    return bool(case.unmatched) and "ReduceLROnPlateau" in _source(case)


def _source(case: Case) -> str:
    return "\n".join(p.read_text(encoding="utf-8", errors="replace") for p in case.root_original.glob("*.py"))


def _decisions(case: Case, counts: list[int]) -> Iterator[Check]:
    title = "all ranks take the same decisions"
    faults = []
    if len(set(counts)) > 1:
        faults.append(f"optimizer steps by rank: {counts}")
    for number, events in enumerate(zip(*(rank.steps for rank in case.ranks), strict=False)):
        if any(event["lr"] != events[0]["lr"] for event in events):
            faults.append(f"step {number}: learning rates by rank {[event['lr'] for event in events]}")
            break
    passes = [[len(loader.passes) for loader in rank.train_loaders.values()] for rank in case.ranks]
    if any(p != passes[0] for p in passes):
        faults.append(f"passes over the training loaders by rank: {passes}")
    if not any(counts):
        yield unknown("ranks.decisions", title, "no optimizer step was seen")
    else:
        yield judged(
            "ranks.decisions", title, faults, f"{counts[0]} steps and the same learning rates everywhere"
        )


def _source_note(case: Case) -> str:
    found = sorted((case.original.sources | case.ranks[0].sources) - {"rounding"})
    return f" (arranged: {', '.join(found)})" if found else ""


def gradient_differences(reference: Trace, rank: Trace) -> list[float]:
    """The relative difference of the gradients of two processes, per optimizer step."""
    return [relative(a["grad"], b["grad"]) for a, b in zip(reference.steps, rank.steps, strict=False)]


def against_original(case: Case) -> Iterator[Check]:
    """Gradients of every step and final parameters against the single process."""
    gradients = ("original.gradients", "gradients equal one process's on the same global batch")
    final = ("original.parameters", "final parameters equal the original's")
    pairs = list(zip(case.reference.steps, case.ranks[0].steps, strict=False))
    reason = case.unmatched or ("" if pairs else "no optimizer step was seen")
    if reason:
        yield unknown(*gradients, reason)
        yield unknown(*final, reason)
        return
    gaps = gradient_differences(case.reference, case.ranks[0])
    first = next((i for i, gap in enumerate(gaps) if gap > GRADIENT), None)
    note = _source_note(case)
    rounding = first is not None and first > 0 and gaps[first] < 20 * max(gaps[max(0, first - 3) : first])
    if first is None:
        yield holds(*gradients, f"{len(gaps)} steps, largest relative difference {max(gaps):.1e}{note}")
    elif rounding:
        yield holds(
            *gradients, f"equal for {first} steps, then rounding differences grow to {max(gaps):.1e}{note}"
        )
    else:
        yield fails(*gradients, f"step {first}: they differ by {gaps[first]:.1%}{_ratio(pairs[first])}{note}")
    yield _final(*final, case, rounding)


def _ratio(pair: tuple[Event, Event]) -> str:
    ours, theirs = pair[0]["grad"]["norm"], pair[1]["grad"]["norm"]
    return f"; norm {theirs:.4g} instead of {ours:.4g}" if ours and abs(theirs / ours - 1) > 0.01 else ""


def _final(id: str, title: str, case: Case, rounding: bool) -> Check:
    ours, theirs = case.reference.final(), case.ranks[0].final()
    if ours is None or theirs is None:
        return unknown(id, title, "a process ended without keeping its parameters")
    a, b = list(ours.items()), list(theirs.items())
    shapes = [tuple(t.shape) for _, t in a], [tuple(t.shape) for _, t in b]
    if shapes[0] != shapes[1]:
        return fails(id, title, f"the optimizers hold other parameters: {len(a)} tensors, now {len(b)}")
    if len(case.reference.steps) != len(case.ranks[0].steps):
        return unknown(id, title, "the runs took different numbers of steps")
    worst, name = _largest(a, b)
    gap, way = _moved(case)
    share = gap / way if way else 0.0
    told = f"largest difference {worst:.1e} ({name}), {share:.1e} of the way the parameters went"
    if not math.isfinite(worst):
        return fails(id, title, f"not finite in {name}")
    if gap <= MOVED * way or worst == 0 or gap == 0:
        if worst <= FINAL or gap <= MOVED / 10 * way:
            return holds(id, title, told)
        return (
            holds(id, title, f"{told}: rounding differences that grew")
            if rounding
            else fails(id, title, told)
        )
    return (
        unknown(id, title, f"{told}: rounding differences that grew") if rounding else fails(id, title, told)
    )


def _largest(a: list[tuple[str, Any]], b: list[tuple[str, Any]]) -> tuple[float, str]:
    worst, name = 0.0, "none"
    for (key, x), (_, y) in zip(a, b, strict=True):
        if not x.numel() or (x.isnan() == y.isnan()).all() and x.nan_to_num().equal(y.nan_to_num()):
            continue
        gap = float((x.double() - y.double()).abs().max())
        if not gap <= worst:
            worst, name = gap, key.split("|")[-1]
    return worst, name


def _moved(case: Case) -> tuple[float, float]:
    """The distance of the two ends, and the way from the start to the original's end, over all optimizers."""
    gap = way = 0.0
    for params in case.reference.of("params"):
        ours = [s for s in case.reference.steps if s["opt"] == params["opt"]]
        theirs = [s for s in case.ranks[0].steps if s["opt"] == params["opt"]]
        if ours and theirs:
            gap += distance(ours[-1]["param"], theirs[-1]["param"])
            way += distance(ours[-1]["param"], params["start"])
    return gap, way
