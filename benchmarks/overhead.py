"""What watching costs: the time between optimizer steps with and without ``scaffold verify``'s watch, in one process.

    python -m benchmarks.overhead [--repeat 3]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from examples.pairs import SETTINGS, convert_example
from scaffold.verify.comparison import Comparison

CLOCK = """\
import json, runpy, sys, time
from torch.optim.optimizer import register_optimizer_step_post_hook
times = []
register_optimizer_step_post_hook(lambda *_: times.append(time.monotonic()))
out, sys.argv = sys.argv[1], sys.argv[2:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    open(out, "w").write(json.dumps(times))
"""


def gaps(times: list[float]) -> float:
    """The median time between two steps, in seconds."""
    return median(b - a for a, b in zip(times, times[1:], strict=False))


def plain(script: Path, arguments: list[str], folder: Path) -> float:
    """Seconds per step of the script as it is."""
    out = folder / "times.json"
    subprocess.run([sys.executable, "-c", CLOCK, str(out), str(script), *arguments], cwd=script.parent, check=True, capture_output=True)
    return gaps(json.loads(out.read_text()))


def watched(script: Path, arguments: list[str]) -> float:
    """Seconds per step of the script under the watch."""
    with Comparison(script, original_args=arguments) as comparison:
        trace, _, _ = comparison.single
        return gaps([step["t"] for step in trace.steps])


def main() -> None:
    """Print a line for each example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", choices=list(SETTINGS), action="append", default=None)
    options = parser.parse_args()
    for name in options.only or ["char_gpt"]:
        with tempfile.TemporaryDirectory() as folder:
            pair = convert_example(name, Path(folder))
            without = min(plain(pair.original, pair.args, Path(folder)) for _ in range(options.repeat))
            under = min(watched(pair.original, pair.args) for _ in range(options.repeat))
        print(f"{name:20} {1000 * without:8.1f} ms a step, watched {1000 * under:8.1f} ms: {under / without - 1:+.1%}")


if __name__ == "__main__":
    main()
