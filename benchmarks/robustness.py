"""Convert every Python file of the standard library and of the installed packages, and count what happens.

    python benchmarks/robustness.py                  # all, on every core
    python benchmarks/robustness.py --every 10       # a tenth
    python benchmarks/robustness.py FOLDER ...       # other folders

Nothing is written. The exit status is 1 if a conversion crashed, if its output does not compile, or if a
file was changed though neither it nor a file it imports differentiates a loss.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import signal
import sys
import sysconfig
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from scaffold.convert import convert
from scaffold.errors import Refused, ScaffoldError
from scaffold.plan import Options
from scaffold.source.patch import patch

FAULTS = ("crashed", "does not compile", "changed, does not train", "timed out")


@dataclass(frozen=True)
class Result:
    """What happened to one file."""

    path: str
    kind: str
    seconds: float
    detail: str = ""


def attempt(path: Path, seconds: int) -> Result:
    """Convert one file in this process."""
    start = time.perf_counter()
    signal.alarm(seconds)
    try:
        kind, detail = _convert(path)
    except TimeoutError:
        kind, detail = "timed out", f"after {seconds} s"
    except Exception as error:
        kind, detail = "crashed", f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.alarm(0)
    return Result(str(path), kind, time.perf_counter() - start, detail)


def _convert(path: Path) -> tuple[str, str]:
    try:
        conversion = convert(path, Options())
    except Refused as refused:
        kind = "no training" if "no training loop" in str(refused) else "refused"
        return kind, str(refused)[:200]
    except ScaffoldError as error:
        return "not readable", str(error)[:200]
    changed = conversion.changed
    patch((file, file.source.name) for file in changed)
    for file in changed:
        try:
            compile(file.encoded(), file.source.name, "exec", dont_inherit=True)
        except SyntaxError as error:
            return "does not compile", str(error)
    if changed and not any("backward" in source.text for source in conversion.plan.facts.project.sources):
        return "changed, does not train", ", ".join(file.source.name for file in changed)
    if conversion.errors:
        return "stopped by a diagnostic", f"{conversion.errors[0].rule} {conversion.errors[0].why}"[:200]
    return ("converted" if changed else "unchanged"), ", ".join(file.source.name for file in changed)[:200]


def _one(job: tuple[Path, int]) -> Result:
    return attempt(*job)


def _prepare() -> None:
    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    sys.setrecursionlimit(20_000)
    gc.set_threshold(100_000)
    warnings.simplefilter("ignore")


def files(folders: list[Path], every: int) -> list[Path]:
    """The Python files to try."""
    if folders:
        found = {path.resolve() for folder in folders for path in folder.rglob("*.py")}
    else:
        library, installed = (Path(sysconfig.get_path(kind)) for kind in ("stdlib", "purelib"))
        found = {path for path in library.rglob("*.py") if "site-packages" not in path.parts}
        found |= set(installed.rglob("*.py"))
    return sorted(path for path in found if path.is_file())[::every]


def main() -> int:
    """Run and print the counts, the faults and the slowest files."""
    parser = argparse.ArgumentParser(description="Convert every installed Python file; write nothing.")
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--every", type=int, default=1, help="try every N-th file only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=int, default=60, help="limit for one file")
    options = parser.parse_args()
    jobs = [(path, options.seconds) for path in files(options.folders, options.every)]
    results: list[Result] = []
    with multiprocessing.Pool(options.jobs, _prepare, maxtasksperchild=50) as pool:
        for result in pool.imap_unordered(_one, jobs, chunksize=4):
            results.append(result)
            if result.kind in FAULTS:
                print(f"{result.kind}: {result.path}: {result.detail}", flush=True)
    print(f"\n{len(results)} files")
    for kind, count in Counter(r.kind for r in results).most_common():
        print(f"{count:7}  {kind}")
    print("\nconverted or stopped:")
    for result in sorted(results, key=lambda r: r.path):
        if result.kind in ("converted", "stopped by a diagnostic", "unchanged"):
            print(f"  {result.kind}: {result.path}: {result.detail}")
    print("\nslowest:")
    for result in sorted(results, key=lambda r: -r.seconds)[:5]:
        print(f"  {result.seconds:5.1f} s  {result.path}")
    return int(any(r.kind in FAULTS for r in results))


if __name__ == "__main__":
    sys.exit(main())
