"""Models are counted and steps simulated from scripts, without training them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scaffold.cli import main
from scaffold.errors import ScaffoldError
from scaffold.strategy.asked import Asked, decide

SCRIPT = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WIDTH = 64


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Tower(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, 10)
        self.tied = self.head

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def build(depth):
    net = Tower(WIDTH, depth)
    for p in net.head.parameters():
        p.requires_grad = {head}
    return net.to("cuda")


def main(args):
    open("trained", "w").close()
    data = TensorDataset(torch.randn(96, WIDTH), torch.randint(0, 10, (96,)))
    loader = DataLoader(data, batch_size=args.batch, shuffle=True)
    net = build(args.depth)
    optimizer = torch.optim.{optimizer}
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled={half}):
            loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(net.state_dict(), "net.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    main(parser.parse_args())
"""


def script(folder: Path, head: bool = True, optimizer: str = "AdamW(net.parameters())") -> Path:
    path = folder / "train.py"
    path.write_text(SCRIPT.replace("{head}", str(head)).replace("{optimizer}", optimizer).replace("{half}", "True"))
    return path


BLOCK = 64 * 256 + 256 + 256 * 64 + 64
HEAD = 64 * 10 + 10


def test_the_model_is_counted_and_nothing_trained(tmp_path: Path) -> None:
    choice, about = decide(Asked(script(tmp_path), ("--depth", "3"), gpu="L4", gpus=2))
    parts = {p.name: p.bytes for p in choice.estimates[1].parts}
    assert parts["parameters"] == (3 * BLOCK + HEAD) * 4 // 2
    assert parts["gathered blocks"] == 2 * BLOCK * 2
    assert "3 x Block" in about[0] and "autocast" in about[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]


def test_frozen_parts_and_other_optimizers(tmp_path: Path) -> None:
    frozen = script(tmp_path, head=False, optimizer="SGD(net.parameters(), lr=0.1, momentum=0.9)")
    choice, about = decide(Asked(frozen, gpu="L4", gpus=1))
    parts = {p.name: p.bytes for p in choice.estimates[0].parts}
    assert parts["parameters"] == (4 * BLOCK + HEAD) * 4
    assert parts["gradients"] == parts["optimizer state"] == 4 * BLOCK * 4
    assert "momentum" in about[0]


def test_a_batch_is_probed_and_a_step_simulated(tmp_path: Path) -> None:
    choice, about = decide(Asked(script(tmp_path), ("--batch", "16"), gpu="L4", gpus=1, probe=True))
    assert "16x64 float32, 16 int64" in about[2]
    found = choice.estimates[0]
    activations = next(p.bytes for p in found.parts if p.name == "activations")
    assert found.complete
    assert 4 * 16 * (64 + 2 * 256) * 2 < activations < 40 * 4 * 16 * 256 * 4
    twice, _ = decide(Asked(script(tmp_path), gpu="L4", gpus=1, shape="8192x64"))
    assert twice.estimates[0].expected > found.expected


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(ScaffoldError, match="--params"):
        decide(Asked(script(tmp_path), gpu="L4", no_exec=True))
    with pytest.raises(ScaffoldError, match="which GPU"):
        decide(Asked(params="8B"))
    with pytest.raises(ScaffoldError, match="32x3x224x224"):
        decide(Asked(script(tmp_path), gpu="L4", shape="32,big"))


@pytest.mark.parametrize(("memory", "strategy"), [("24GiB", "DDP"), ("1300MB", "FSDP2")])
def test_convert_chooses(memory: str, strategy: str, tmp_path: Path) -> None:
    path = script(tmp_path)
    arguments = ["convert", str(path), "--strategy", "auto", "--gpu-memory", memory, "--gpus", "8", "--params", "100M" if strategy == "FSDP2" else "1M"]
    done = CliRunner().invoke(main, [*arguments, "--diff", "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["options"]["strategy"] == strategy.lower()
    assert any(line.startswith(f"decision: {strategy} on 8 x GPU") for line in report["decision"])
    assert ("fully_shard" in report["diff"]) == (strategy == "FSDP2")


def test_convert_says_what_else_is_needed(tmp_path: Path) -> None:
    path = script(tmp_path)
    done = CliRunner().invoke(main, ["convert", str(path), "--strategy", "auto", "--gpu", "H100", "--gpus", "8", "--params", "70B"])
    assert done.exit_code == 2
    assert "LoRA on the same GPUs" in done.stderr and "8 x B200" in done.stderr
    assert path.read_text() == SCRIPT.replace("{head}", "True").replace("{optimizer}", "AdamW(net.parameters())").replace("{half}", "True")
