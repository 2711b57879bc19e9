"""What share of wrong conversions ``scaffold check`` finds without running anything, and how often it is wrong about right ones.

The same wrong versions as in ``benchmarks/mutants.py`` and in the tests of ``verify``. A fault counts as found if its version
gets a finding, of a line and rule, that the right version does not get.

    python -m benchmarks.check [--only char_gpt] [--fsdp2] [-v]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.mutants import mutants
from examples.pairs import SETTINGS, convert_example
from scaffold.check.config import Config
from scaffold.check.finding import Finding
from scaffold.check.run import check
from scaffold.plan import Options
from tests.verify.mutants import ALL, PAIRS


def findings(folder: Path) -> list[Finding]:
    """All findings in a folder."""
    return check([folder], Config(), notes=False).findings


def _kinds(found: list[Finding]) -> Counter[tuple[str, str]]:
    return Counter((f.rule, f.why) for f in found)


def by_hand(work: Path) -> Iterator[tuple[str, str, list[Finding]]]:
    """The pairs of ``tests/verify``: name, fault (empty for the right one), findings."""
    right: dict[str, Counter[tuple[str, str]]] = {}
    for pair in dict.fromkeys(m.pair for m in ALL):
        found = findings(shutil.copytree(PAIRS / pair, work / pair))
        right[pair] = _kinds(found)
        yield pair, "", found
    for number, mutant in enumerate(ALL):
        folder = work / f"wrong{number}"
        folder.mkdir()
        (folder / "converted.py").write_text(mutant.text())
        found = findings(folder)
        yield mutant.pair, mutant.name, [f for f in found if (f.rule, f.why) not in right[mutant.pair]]


def converted(name: str, work: Path) -> Iterator[tuple[str, str, list[Finding]]]:
    """An example's conversion, and its wrong versions."""
    pair = convert_example(name, work)
    ours = findings(pair.converted.parent)
    yield name, "", ours
    known = _kinds(ours)
    for number, (fault, texts) in enumerate(mutants(pair.converted.parent, pair.converted.name)):
        wrong = shutil.copytree(pair.converted.parent, work / f"wrong{number}")
        for file, text in texts.items():
            (wrong / file).write_text(text)
        yield name, fault.name, [f for f in findings(wrong) if (f.rule, f.why) not in known]


def sharded(name: str, work: Path) -> Iterator[tuple[str, str, list[Finding]]]:
    """An example's conversion to FSDP2."""
    try:
        pair = convert_example(name, work, Options(strategy="fsdp2"))
    except Exception:
        return
    yield name, "", findings(pair.converted.parent)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(SETTINGS), action="append", help="these examples alone")
    parser.add_argument("--fsdp2", action="store_true", help="the right conversions to FSDP2 alone")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what was found")
    options = parser.parse_args()
    found: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        runs = [] if options.only or options.fsdp2 else [by_hand(Path(folder))]
        runs += [(sharded if options.fsdp2 else converted)(n, Path(folder, n)) for n in options.only or SETTINGS]
        for run in runs:
            for name, fault, got in run:
                if not fault:
                    alarms = [f for f in got if f.severity != "note"]
                    wrong += len(alarms)
                    for finding in alarms:
                        print(f"{name:20} FALSE ALARM {finding.line}: {finding.rule} {finding.why}", flush=True)
                    continue
                (found if got else missed)[fault] += 1
                if options.verbose or not got:
                    told = "; ".join(f"{f.line}: {f.rule} {f.why[:60]}" for f in got) if got else "missed"
                    print(f"{name:20} {fault:36} {told}", flush=True)
    total = found.total() + missed.total()
    if total:
        print(f"\n{found.total()} of {total} wrong versions found ({found.total() / total:.1%}); {wrong} findings in the right ones")
    for fault, count in missed.most_common():
        print(f"  missed {count} of {count + found[fault]}: {fault}")


if __name__ == "__main__":
    main()
