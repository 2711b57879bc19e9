"""What the ranks trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from scaffold.verify.case import Case, fails, holds, judged, unknown
from scaffold.verify.result import Check
from scaffold.verify.trace import Loader, Pass, Trace
from scaffold.verify.union import batch_sizes, is_batch, pairs, union

DISJOINT = ("data.disjoint", "the ranks train on different samples")
COMPLETE = ("data.complete", "together they train on what the original trains on")
ORDER = ("data.order", "the order of the epochs is the original's kind")
DRAWS = ("data.draws", "random draws differ between ranks")
SPLIT = ("data.split", "no rank evaluates on what another trains on")


def samples(case: Case) -> Iterator[Check]:
    """All checks of the samples."""
    together = list(pairs(case.original, case.ranks))
    if not together:
        yield _rows(case.original, case.ranks)
        reason = "training reads no DataLoader on every rank"
        yield unknown(*COMPLETE, reason)
        yield unknown(*ORDER, reason)
    else:
        yield judged(*DISJOINT, [f for o, t in together for f in _overlap(o, t)], _told(together))
        yield _complete(together)
        yield _order(together)
    yield _drawn(case)
    yield _split(case)


def _told(together: Sequence[tuple[Loader, list[Loader]]]) -> str:
    ours, theirs = together[0]
    size = [len(loader.passes[0].flat) if loader.passes else 0 for loader in theirs]
    batch = theirs[0].facts["share"] or theirs[0].facts["batch"]
    return f"first epoch: {size} samples by rank, batches of {batch}"


def _repeats(flat: Sequence[int]) -> int:
    return len(flat) - len(set(flat))


def _overlap(ours: Loader, theirs: list[Loader]) -> Iterator[str]:
    """Samples that several ranks took in one epoch, beyond padding and what the original itself repeats."""
    world = len(theirs)
    for number, joined in enumerate(union(theirs)):
        parts = [loader.passes[number].flat for loader in theirs]
        if len(parts[0]) > 1 and all(part == parts[0] for part in parts[1:]):
            yield f"epoch {number}: all ranks take the same {len(parts[0])} samples in the same order"
            continue
        own = ours.passes[min(number, len(ours.passes) - 1)].flat if ours.passes else []
        shared = _repeats(joined.flat) - _repeats(own)
        scale = max(1, len(own))
        if shared >= world and not (_repeats(own) and shared < 0.35 * scale):
            yield f"epoch {number}: {shared} of {len(joined.flat)} samples are taken more than once"


def _complete(together: Sequence[tuple[Loader, list[Loader]]]) -> Check:
    faults: list[str] = []
    padding = seen = 0
    for ours, theirs in together:
        for number, joined in enumerate(union(theirs)):
            if number >= len(ours.passes) or not (joined.finished and ours.passes[number].finished):
                continue
            seen += 1
            own, got = ours.passes[number].flat, joined.flat
            padding += max(0, len(got) - len(own))
            if _repeats(own) > len(theirs):
                faults += _resampled(own, got, number)
                continue
            batch = max((len(b) for b in joined.batches), default=0)
            slack = batch + len(theirs) if ours.facts["drop_last"] else 0
            missing, extra = set(own) - set(got), set(got) - set(own)
            if len(missing) > slack or (not slack and extra) or len(extra) > slack:
                faults.append(
                    f"epoch {number}: {len(missing)} samples left out, {len(extra)} not in the original"
                )
    if not seen and not faults:
        return unknown(*COMPLETE, "no epoch was finished in both runs")
    return judged(*COMPLETE, faults, f"{seen} epochs complete, {padding} samples of padding")


def _resampled(own: Sequence[int], got: Sequence[int], number: int) -> Iterator[str]:
    """A sampler that draws with replacement must still do so, and favour the same samples."""
    if _repeats(got) < 0.3 * _repeats(own) * len(got) / max(1, len(own)):
        yield f"epoch {number}: the original draws with replacement, the ranks do not"
        return
    counts, drawn = Counter(own), Counter(got)
    often = {sample for sample, count in counts.items() if count > 1}
    share = sum(drawn[s] for s in often) / max(1, len(got)) / (sum(counts[s] for s in often) / len(own))
    if len(own) >= 64 and len(often) * 20 < len(counts) and share < 0.5:
        yield f"epoch {number}: samples the original prefers are drawn {share:.0%} as often"


def _order(together: Sequence[tuple[Loader, list[Loader]]]) -> Check:
    faults, seen = [], 0
    for ours, theirs in together:
        joined = union(theirs)
        trained = [p for p, own in zip(joined, theirs[0].passes, strict=False) if own.learned]
        for before, after in zip(trained, trained[1:], strict=False):
            seen += 1
            number = joined.index(after)
            if _fixed(ours):
                continue
            if len(before.flat) > 3 and _same_order(before, after):
                faults.append(f"epoch {number} has the order of epoch {number - 1}: it is not reshuffled")
        if joined and _fixed(ours) and _sequential(ours):
            seen += 1
            if any(
                sorted(b) != sorted(o)
                for b, o in zip(joined[0].batches, ours.passes[0].batches, strict=False)
            ):
                share = [len(b) for b in joined[0].batches[:1]] == [
                    len(b) for b in ours.passes[0].batches[:1]
                ]
                flat = joined[0].flat
                if share and flat[: len(flat) - len(theirs)] != sorted(flat[: len(flat) - len(theirs)]):
                    faults.append("the original does not shuffle, the ranks do")
    if not seen:
        return unknown(*ORDER, "fewer than two epochs")
    return judged(*ORDER, faults, f"{seen} epochs compared")


def _same_order(before: Pass, after: Pass) -> bool:
    length = min(len(before.flat), len(after.flat))
    return before.flat[:length] == after.flat[:length]


def _sequential(loader: Loader) -> bool:
    return bool(loader.facts["sampler"] == "SequentialSampler")


def _fixed(loader: Loader) -> bool:
    passes = loader.passes
    if loader.facts["iterable"] or _sequential(loader):
        return True
    return len(passes) > 1 and all(_same_order(a, b) for a, b in zip(passes, passes[1:], strict=False))


def _rows(original: Trace, ranks: Sequence[Trace]) -> Check:
    """Scripts that batch on their own: the rows that the model was given."""
    steps = [step for step in zip(*(rank.rows for rank in ranks), strict=False) if all(step)]
    if not steps:
        return unknown(*DISJOINT, "the inputs of the model were not seen")
    same = [i for i, step in enumerate(steps) if all(sorted(rows) == sorted(step[0]) for rows in step)]
    own = [len(rows) - len(set(rows)) for rows in original.rows]
    shared = sum(sum(map(len, step)) - len(set(chain.from_iterable(step))) for step in steps)
    total = sum(sum(map(len, step)) for step in steps)
    if len(same) > 0.5 * len(steps):
        return fails(*DISJOINT, f"all ranks train on the same {len(steps[0][0])} rows (step {same[0]})")
    if shared > 0.25 * total + 2 * sum(own):
        return fails(*DISJOINT, f"{shared} of {total} rows are trained on by several ranks in the same step")
    return holds(*DISJOINT, f"{len(steps)} steps, {shared} of {total} rows on several ranks in the same step")


def _drawn(case: Case) -> Check:
    ours, theirs = case.original.draws, [rank.draws for rank in case.ranks]
    sizes, world = batch_sizes(case.ranks[0]), len(case.ranks)
    faults, seen = [], 0
    for key, listed in theirs[0].items():
        equal = total = 0
        for number, draw in enumerate(listed):
            known = ours.get(key, [])
            shape = known[number]["shape"] if number < len(known) else None
            others = [t[key][number] for t in theirs[1:] if number < len(t.get(key, []))]
            if len(draw["values"]) > 1 and is_batch(draw["shape"], shape, sizes, world):
                total += 1
                equal += bool(others) and all(o["values"] == draw["values"] for o in others)
        seen += total
        if total and equal > total / 2:
            faults.append(f"{key}: {equal} of {total} draws for a batch are the same on all ranks")
    for kind in ("dropout", "augmentation"):
        states = [[e["rng"] for e in rank.of("source") if e["kind"] == kind] for rank in case.ranks]
        if all(states) and states[0][0] is not None:
            seen += 1
            if all(state == states[0] for state in states):
                faults.append(f"{kind} is drawn from the same generator state on all ranks")
    if not seen:
        return unknown(*DRAWS, "training draws no random numbers of its own")
    return judged(*DRAWS, faults, f"{seen} draws compared")


def _split(case: Case) -> Check:
    """Sets for training and evaluation that are disjoint in the original must be so across ranks."""

    def used(trace: Trace, trains: bool) -> dict[tuple[str, int], set[int]]:
        found: dict[tuple[str, int], set[int]] = {}
        for loader in trace.loaders.values():
            if loader.trains is trains and loader.passes and not loader.facts["iterable"]:
                key = (loader.facts["dataset"], loader.facts["base"])
                found.setdefault(key, set()).update(chain.from_iterable(p.flat for p in loader.passes))
        return found

    train, other = used(case.original, True), used(case.original, False)
    shared = [key for key in train if key in other]
    apart = [key for key in shared if not train[key] & other[key]]
    if not shared:
        return unknown(*SPLIT, "training and evaluation read different data sets, or one is not read")
    faults = []
    for key in apart:
        for a in case.ranks:
            for b in case.ranks:
                both = used(a, True).get(key, set()) & used(b, False).get(key, set())
                if both:
                    faults.append(
                        f"{len(both)} samples that rank {b.rank} evaluates on are trained on by rank {a.rank}"
                    )
    return judged(*SPLIT, faults, "disjoint on all ranks")
