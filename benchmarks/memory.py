"""Estimated against measured memory: the peak of a real training step on the CPU, as torch's own ``MemTracker`` counts it.

    python -m benchmarks.memory

The optimizers run in the form that CUDA takes by default (``foreach``). For each model, optimizer and batch: what scaffold predicts without running it (context, NCCL and margin left out), what was
measured, and what Accelerate's and DeepSpeed's published formulas say (states only: 16 bytes a parameter with Adam).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from scaffold.strategy.asked import Asked, decide
from scaffold.strategy.memory import CONTEXT

MODELS = """\
import torch
from torch import nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.n1, self.n2, self.h = nn.LayerNorm(d), nn.LayerNorm(d), h
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class GPT(nn.Module):
    def __init__(self, d, layers, vocab=5000):
        super().__init__()
        self.emb, self.blocks = nn.Embedding(vocab, d), nn.ModuleList([Block(d, 4) for _ in range(layers)])
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, x):
        x = self.emb(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class ViT(nn.Module):
    def __init__(self, d, layers):
        super().__init__()
        self.patch, self.blocks = nn.Conv2d(3, d, 8, 8), nn.ModuleList([Block(d, 4) for _ in range(layers)])
        self.head = nn.Linear(d, 100)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class CNN(nn.Module):
    def __init__(self, width):
        super().__init__()
        sizes = [3, width, 2 * width, 4 * width]
        self.body = nn.Sequential(*[m for a, b in zip(sizes, sizes[1:]) for m in (nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2))])
        self.head = nn.Linear(4 * width, 100)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class MLP(nn.Module):
    def __init__(self, d, layers):
        super().__init__()
        self.body = nn.Sequential(*[m for _ in range(layers) for m in (nn.Linear(d, d), nn.ReLU())], nn.Linear(d, 10))

    def forward(self, x):
        return self.body(x)
"""

TRAIN = MODELS + """
model = {build}
optimizer = torch.optim.{optimizer}
for _ in range(2):
    loss = model({inputs}).float().log_softmax(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

MEASURE = MODELS + """
import json, sys
from torch.distributed._tools.mem_tracker import MemTracker

model = {build}
x = {inputs}
optimizer = torch.optim.{optimizer}
tracker = MemTracker()
tracker.track_external(model, optimizer, x)
with tracker:
    for _ in range(2):
        tracker.reset_mod_stats()
        loss = model(x).float().log_softmax(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        del loss
        optimizer.step()
peak = tracker.get_tracker_snapshot("peak")
print(json.dumps(sum(v for parts in peak.values() for k, v in parts.items() if str(getattr(k, "value", k)) == "Total") - x.numel() * x.element_size()))
"""


@dataclass(frozen=True)
class Case:
    """A model, its optimizer, and the shape of its batch."""

    build: str
    optimizer: str
    shape: str

    def inputs(self) -> str:
        """Python text for a batch of the shape."""
        sizes, _, dtype = self.shape.partition(":")
        shape = ", ".join(sizes.split("x"))
        return f"torch.zeros({shape}, dtype=torch.int64)" if dtype else f"torch.randn({shape})"

    def text(self, template: str) -> str:
        """A script of this case."""
        return template.replace("{build}", self.build).replace("{optimizer}", self.optimizer).replace("{inputs}", self.inputs())


ADAM, SGD, MOMENTUM = "AdamW(model.parameters(), foreach=True)", "SGD(model.parameters(), lr=0.1)", "SGD(model.parameters(), lr=0.1, momentum=0.9)"
CASES = [
    Case(build, optimizer, shape)
    for build, shapes in {
        "MLP(512, 4)": ["64x512", "1024x512"],
        "MLP(1024, 8)": ["256x1024"],
        "CNN(16)": ["16x3x64x64", "64x3x64x64"],
        "CNN(32)": ["16x3x64x64"],
        "GPT(128, 4)": ["4x128:int64", "16x128:int64"],
        "GPT(256, 6)": ["4x128:int64"],
        "GPT(512, 4)": ["2x128:int64"],
        "ViT(128, 4)": ["8x3x64x64", "32x3x64x64"],
        "ViT(256, 6)": ["8x3x64x64"],
        "GPT(384, 3)": ["8x64:int64"],
    }.items()
    for shape in shapes
    for optimizer in (ADAM, SGD, MOMENTUM)
]


def predicted(case: Case, folder: Path) -> tuple[int, int, int]:
    """Bytes that scaffold expects, bytes on its safe side, both without the context, and the parameters."""
    script = folder / "train.py"
    script.write_text(case.text(TRAIN))
    choice, _ = decide(Asked(script, gpu="H100", gpus=1, shape=case.shape))
    found = choice.estimates[0]
    count = next(part for part in found.parts if part.name == "parameters").bytes // 4
    return found.expected - CONTEXT, found.high - CONTEXT, count


def measured(case: Case, folder: Path) -> int:
    """The peak in bytes of a real run."""
    script = folder / "measure.py"
    script.write_text(case.text(MEASURE))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout))


def main() -> None:
    """Print the table."""
    print(f"{'model':18}{'batch':16}{'optimizer':10}{'predicted':>11}{'measured':>11}{'error':>8}{'covered':>9}{'16 B/param':>12}")
    errors, covered = [], 0
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            ours, high, count = predicted(case, Path(folder))
            real = measured(case, Path(folder))
        errors.append(abs(ours / real - 1))
        covered += high >= real
        name = "momentum" if "momentum" in case.optimizer else case.optimizer.partition("(")[0]
        print(f"{case.build:18}{case.shape:16}{name:10}{ours / 1e6:9.1f}MB{real / 1e6:9.1f}MB{ours / real - 1:+8.1%}{'yes' if high >= real else 'NO':>9}{16 * count / 1e6:10.1f}MB", flush=True)
    errors.sort()
    print(f"\n{len(errors)} cases: median error {errors[len(errors) // 2]:.1%}, largest {errors[-1]:.1%}; the safe side covers {covered / len(errors):.0%}")


if __name__ == "__main__":
    main()
