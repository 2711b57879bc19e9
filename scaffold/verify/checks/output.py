"""Lines printed."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator

from scaffold.verify.case import Case, judged, unknown
from scaffold.verify.result import Check

NUMBER = re.compile(r"(?<![A-Za-z_])[-+]?(?:\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|inf)(?![A-Za-z_]\w)")
TIMED = re.compile(
    r"\b(s|sec|secs|seconds?|ms|min|minutes?|it/s|/s|per sec\w*|time|elapsed|took|throughput|speed|"
    r"eta|mem\w*|mfu|[GM]i?B|tok/s|samples/s|img/s|date|duration)\b|\d\s?(s|ms)\b|/s\b",
    re.IGNORECASE,
)
STAMP = re.compile(
    r"\d{4}-\d\d-\d\d[ T_]\d\d[:-]\d\d[:-]\d\d(?:[.,]\d+)?|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b|0x[0-9a-f]+"
)
NOISE = re.compile(r"Warning|warnings\.warn|^\[(rank|W|I|E)\w*|it/s|s/it|\d%\|", re.IGNORECASE)
PLACES = re.compile(r"cuda(:\d+)?|\bcpu\b")
RELATIVE = 2e-3


def lines(text: str) -> list[str]:
    """Printed lines without time stamps, blank lines, warnings and progress bars."""
    kept = []
    warned = False
    for line in text.replace("\r", "\n").splitlines():
        quoted = warned and line.startswith("  ")
        warned = "Warning: " in line
        line = STAMP.sub("<time>", line).strip()
        if line and not quoted and not NOISE.search(line):
            kept.append(line)
    return kept


def shape(line: str) -> str:
    """A line with its numbers and devices left out."""
    return re.sub(r"\s+", " ", NUMBER.sub("#", PLACES.sub("<device>", line)))


def numbers(line: str) -> list[float]:
    """The numbers in a line."""
    return [float(found.replace(",", "")) for found in NUMBER.findall(PLACES.sub("", line))]


def _decimals(line: str) -> float:
    digits = [len(found.split(".")[1]) for found in re.findall(r"\d+\.\d+", line)]
    return float(1.01 * 10.0 ** -max(digits)) if digits else 0.0


def differs(a: str, b: str) -> bool:
    """Whether two lines of the same shape say different numbers; times and speeds may differ."""
    if a == b or TIMED.search(NUMBER.sub("#", a)) and _without_times(a, b):
        return False
    unit = _decimals(a)
    pairs = zip(numbers(a), numbers(b), strict=False)
    return any(abs(x - y) > max(unit, RELATIVE * max(abs(x), abs(y))) and x == x for x, y in pairs)


def _without_times(a: str, b: str) -> bool:
    """Whether the lines agree in all numbers but those with a unit of time, speed or memory beside them."""
    ours, theirs = list(NUMBER.finditer(a)), list(NUMBER.finditer(b))
    for x, y in zip(ours, theirs, strict=False):
        around = a[max(0, x.start() - 12) : x.start()] + " " + a[x.end() : x.end() + 10]
        if TIMED.search(around.lstrip("0123456789.")):
            continue
        try:
            one, other = float(x.group().replace(",", "")), float(y.group().replace(",", ""))
        except ValueError:
            continue
        if abs(one - other) > max(_decimals(x.group()), RELATIVE * max(abs(one), abs(other))):
            return False
    return True


def printed(case: Case) -> Iterator[Check]:
    """Whether output appears once, and says what the original says."""
    yield _once(case)
    title = "the printed lines say what the original's say"
    streams = [
        (lines(getattr(case.reference, name)), [line for rank in case.ranks for line in lines(getattr(rank, name))])
        for name in ("stdout", "stderr")
    ]
    if not any(ours for ours, _ in streams):
        yield unknown("output.equal", title, "the original prints nothing")
        return
    if case.crashed or case.outcome.hang:
        yield unknown("output.equal", title, "the run did not come to its end")
        return
    missing: list[str] = []
    values: list[tuple[str, str]] = []
    for ours, theirs in streams:
        gone, differ = compare_lines(ours, theirs)
        missing, values = missing + gone, values + differ
    incomparable = incomparable_numbers(case, values)
    if incomparable and not missing:
        yield unknown("output.equal", title, f"the same lines; their numbers can't be compared: {incomparable}")
        return
    told = [f"missing: {line!r}" for line in missing] + [f"{a!r} is now {b!r}" for a, b in values]
    yield judged("output.equal", title, told, f"{sum(len(ours) for ours, _ in streams)} lines")


def incomparable_numbers(case: Case, values: list[tuple[str, str]]) -> str:
    """Why the numbers of lines that differ prove nothing; empty where they do."""
    if case.unmatched or not values:
        return case.unmatched
    unexplained = [pair for pair in values if not _follow(*pair, case.told)]
    if unexplained:
        return case.other_estimates
    return f"{values[0][0]!r} is now {values[0][1]!r}, as the command lines differ"


def _follow(a: str, b: str, told: tuple[tuple[str, str], ...]) -> bool:
    """Whether the numbers that differ are integers in the ratio of two arguments that differ."""
    ratios = [(float(x), float(y)) for x, y in told if NUMBER.fullmatch(x) and NUMBER.fullmatch(y)]
    pairs = [(x, y) for x, y in zip(numbers(a), numbers(b), strict=False) if x != y]
    return bool(pairs) and all(x.is_integer() and any(x * theirs == y * ours for ours, theirs in ratios) for x, y in pairs)


def compare_lines(ours: list[str], theirs: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Lines that are missing, and pairs of lines whose numbers differ."""
    a, b = [shape(line) for line in ours], [shape(line) for line in theirs]
    missing, values = [], []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            pairs = zip(ours[i1:i2], theirs[j1:j2], strict=True)
            values += [(x, y) for x, y in pairs if differs(x, y)]
        elif tag in ("delete", "replace"):
            missing += [line for line in ours[i1:i2] if shape(line) not in b]
            if tag == "delete" and not missing:
                missing += ours[i1:i2]
    return missing, values


def _once(case: Case) -> Check:
    title = "output is printed once"
    repeated: list[str] = []
    for stream in ("stdout", "stderr"):
        counts = [Counter(shape(line) for line in lines(getattr(rank, stream))) for rank in case.ranks]
        own = Counter(shape(line) for line in lines(getattr(case.reference, stream)))
        if stream == "stderr" and case.crashed:
            continue
        for line in counts[0]:
            several = sum(line in count for count in counts) > 1
            if several and sum(count[line] for count in counts) > max(own[line], counts[0][line]):
                repeated.append(f"{line!r} by {sum(line in count for count in counts)} ranks")
    bars = ["a progress bar by several ranks"] if sum("it/s" in r.stderr for r in case.ranks) > 1 else []
    return judged("output.once", title, repeated + bars, "by one rank")
