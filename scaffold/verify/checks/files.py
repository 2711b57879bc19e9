"""Files written, and what is in the checkpoints."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from scaffold.verify.case import Case, fails, holds, judged, unknown
from scaffold.verify.checks.training import relative
from scaffold.verify.result import Check
from scaffold.verify.trace import Event, Trace

PREFIXES = ("module.", "_orig_mod.", "_fsdp_wrapped_module.")


def stable(path: str) -> str:
    """A path without time stamps and process numbers, which differ from run to run."""
    return re.sub(r"\d{5,}", "#", re.sub(r"\d{2,4}([-_:.T]?\d{2}){2,}", "#", path))


def written(trace: Trace) -> set[str]:
    """Paths that the process wrote, renamed to or made."""
    removed = {e["path"] for e in trace.of("write") if e["how"] in ("remove", "rmtree", "rmdir")}
    return {e["path"] for e in trace.of("write") if e["how"] not in ("remove", "rmtree", "rmdir")} - removed


def files(case: Case) -> Iterator[Check]:
    """Which files are written, by whom, with which content."""
    ours = {stable(path) for path in written(case.original)}
    theirs = [{stable(path) for path in written(rank)} for rank in case.ranks]
    title = "each file is written by one rank"
    if not ours and not any(theirs):
        yield unknown("files.once", title, "no file is written")
    else:
        faults = sorted(
            f"{p} by ranks {_by(p, theirs)}" for p in set().union(*theirs) if len(_by(p, theirs)) > 1
        )
        files_only = [f for f in faults if not _folder(case, f.split(" by ")[0])]
        yield judged("files.once", title, files_only, f"{len(set().union(*theirs))} paths")
    title = "the same files are written"
    if case.crashed or case.outcome.hang:
        yield unknown("files.names", title, "the run did not come to its end")
    elif ours or any(theirs):
        missing = [f"{p} is missing" for p in sorted(ours - set().union(*theirs))]
        extra = [f"{p} is new" for p in sorted(set().union(*theirs) - ours)]
        yield judged("files.names", title, missing + extra, f"{len(ours)} paths")
    else:
        yield unknown("files.names", title, "no file is written")
    yield _checkpoints(case)


def _by(path: str, ranks: list[set[str]]) -> list[int]:
    return [number for number, paths in enumerate(ranks) if path in paths]


def _folder(case: Case, path: str) -> bool:
    kinds = {e["how"] for rank in case.ranks for e in rank.of("write") if stable(e["path"]) == path}
    return kinds <= {"mkdir"}


def _saves(trace: Trace) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for event in trace.of("save"):
        found.setdefault(stable(event["path"]), []).append(event)
    return found


def _checkpoints(case: Case) -> Check:
    id, title = "files.content", "checkpoints hold what the original's hold"
    ours = _saves(case.reference)
    theirs: dict[str, list[Event]] = {}
    for rank in case.ranks:
        for path, events in _saves(rank).items():
            theirs.setdefault(path, events)
    if not ours and not theirs:
        return unknown(id, title, "nothing is saved with torch.save")
    faults: list[str] = []
    compared = 0
    for path, events in ours.items():
        others = theirs.get(path, [])
        if not others:
            if not (case.crashed or case.outcome.hang):
                faults.append(f"{path} is not saved")
            continue
        if len(others) != len(events) and not (case.unmatched or case.crashed or case.outcome.hang):
            faults.append(f"{path} is saved {len(others)} times instead of {len(events)}")
        for a, b in zip(events, others, strict=False):
            compared += 1
            faults += [
                f"{path}: {fault}" for fault in leaves(a["leaves"], b["leaves"], case)
            ]
            if faults:
                break
    if not compared and not faults:
        return unknown(id, title, "the run ended before a checkpoint")
    return (
        fails(id, title, "; ".join(faults[:3])) if faults else holds(id, title, f"{compared} saves compared")
    )


def leaves(ours: dict[str, Any], theirs: dict[str, Any], case: Case) -> Iterator[str]:
    """How the saved leaves differ: keys, wrappers, shapes, and the numbers where the runs trained on the same."""
    strange = [key for key in theirs if key not in ours]
    prefixed = [key for key in strange if any(prefix in key for prefix in PREFIXES)]
    if prefixed:
        yield f"key {prefixed[0]!r} has a wrapper's prefix"
        return
    missing = [key for key in ours if key not in theirs]
    if missing or strange:
        yield f"keys differ: {missing[:2]} missing, {strange[:2]} new"
        return
    for key, a in ours.items():
        fault = _leaf(a, theirs[key], case)
        if fault:
            yield f"{key!r} {fault}"


def _leaf(a: Event, b: Event, case: Case) -> str:
    if b["kind"] != a["kind"]:
        return f"is a {b['kind']}, not a {a['kind']}"
    if b.get("wrapper"):
        return f"holds the wrapper {b['wrapper'][0]}"
    if a.get("class") != b.get("class"):
        return f"is a {b.get('class')}, not a {a.get('class')}"
    if a.get("shape") != b.get("shape"):
        return f"has shape {b.get('shape')} instead of {a.get('shape')}"
    if case.unmatched:
        return ""
    if "norm" in a and relative(a, b) > 2e-2 and max(a["norm"], b["norm"]) > 1e-6:
        return f"differs by {relative(a, b):.1%}"
    x, y = a.get("value"), b.get("value")
    if (str(x), str(y)) in case.told:
        return ""
    if isinstance(x, float) and isinstance(y, float | int) and not case.other_estimates:
        close = math.isclose(x, y, rel_tol=2e-3, abs_tol=1e-6) or (math.isnan(x) and math.isnan(y))
        return "" if close else f"is {y} instead of {x}"
    if isinstance(x, int) and not isinstance(x, bool) and x != y:
        return f"is {y} instead of {x}"
    return ""
