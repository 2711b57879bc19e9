"""Time ``scaffold convert --diff`` as a user does: the whole process, on scripts of about 150 and 1000 lines.

    python benchmarks/convert.py
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
RUNS = 7

BLOCK = '''

class Block{n}(nn.Module):
    """One more layer, so that the file grows as real ones do."""

    def __init__(self, width, dropout=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x, mask=None):
        h = F.gelu(self.up(self.norm(x)))
        if mask is not None:
            h = h.masked_fill(mask.unsqueeze(-1), 0.0)
        return x + self.gain * self.dropout(self.down(h))


def describe_{n}(records, limit={n}):
    """A helper of the kind that every project has."""
    lines = []
    for index, (name, value) in enumerate(sorted(records.items())):
        if index >= limit:
            break
        lines.append("{{:>20}} {{:.4f}}".format(name, value))
    return "\\n".join(lines)

'''


def long_script(lines: int) -> str:
    """A training script of about ``lines`` lines: an example, with more layers and helpers in it."""
    head, marker, tail = (EXAMPLES / "mnist_main" / "train.py").read_text().partition("class Net(nn.Module):")
    blocks: list[str] = []
    while sum(text.count("\n") for text in (head, tail, *blocks)) < lines:
        blocks.append(BLOCK.format(n=len(blocks)))
    uses = "".join(f"        self.block{n} = Block{n}(10)\n" for n in range(len(blocks)))
    calls = "".join(f"        x = self.block{n}(x)\n" for n in range(len(blocks)))
    tail = tail.replace("super().__init__()\n", "super().__init__()\n" + uses, 1)
    tail = tail.replace("        return F.log_softmax", calls + "        return F.log_softmax", 1)
    return head + "".join(blocks) + marker + tail


def seconds(script: Path) -> tuple[float, float]:
    """The median wall and processor time of a whole process."""
    command = [sys.executable, "-m", "scaffold", "convert", str(script), "--diff", "--quiet"]
    wall, busy = [], []
    for _ in range(RUNS + 1):
        start, before = time.perf_counter(), _children()
        done = subprocess.run(command, capture_output=True, check=False)
        wall.append(time.perf_counter() - start)
        busy.append(_children() - before)
        if done.returncode != 0 or not done.stdout:
            sys.exit(f"{script}: {done.stderr.decode()}")
    return median(wall[1:]), median(busy[1:])


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Print the table."""
    print(f"{'script':<24}{'lines':>6}{'seconds':>9}{'processor':>11}{'target':>8}")
    with tempfile.TemporaryDirectory() as folder:
        grown = Path(folder) / "grown.py"
        grown.write_text(long_script(1000))
        rows = [(EXAMPLES / name / "train.py", 0.5) for name in ("mnist_main", "cifar_cnn", "vae")]
        for script, target in [*rows, (grown, 1.5)]:
            name = script.parent.name if script is not grown else "mnist_main, grown"
            count = len(script.read_text().splitlines())
            took, busy = seconds(script)
            print(f"{name:<24}{count:>6}{took:>9.2f}{busy:>11.2f}{target:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
