"""Resuming from a conversion's checkpoint: by the original, and by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.verify import compare

ORIGINAL = """\
import os
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
start = 0
if os.path.exists("last.pt"):
    state = torch.load("last.pt")
    net.load_state_dict(state["net"])
    optimizer.load_state_dict(state["optimizer"])
    start = state["epoch"] + 1
for epoch in range(start, 4):
    for x, y in DataLoader(data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        F.mse_loss(net(x), y).backward()
        optimizer.step()
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "last.pt")
    print("epoch", epoch)
"""

CONVERTED = """\
import os
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
net = torch.nn.Linear(4, 1)
ddp = DDP(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
start = 0
if os.path.exists("last.pt"):
    state = torch.load("last.pt")
    net.load_state_dict(state["net"])
    optimizer.load_state_dict(state["optimizer"])
    start = state["epoch"] + 1
sampler = DistributedSampler(data)
for epoch in range(start, 4):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, batch_size=16, sampler=sampler):
        optimizer.zero_grad()
        F.mse_loss(ddp(x), y).backward()
        optimizer.step()
    if rank == 0:
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "last.pt")
        print("epoch", epoch)
    dist.barrier()
dist.destroy_process_group()
"""


def verdicts(tmp_path: Path, converted: str) -> dict[str, str]:
    (tmp_path / "train.py").write_text(ORIGINAL)
    (tmp_path / "converted.py").write_text(converted)
    report = compare(tmp_path / "train.py", tmp_path / "converted.py", timeout=60)
    return {check.id: check.verdict for check in report.checks if check.id.startswith("resume.")}


def test_a_right_conversion_resumes(tmp_path: Path) -> None:
    assert verdicts(tmp_path, CONVERTED) == {"resume.loads": "holds", "resume.same": "holds"}


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        ('{"net": net.', '{"net": ddp.', "resume.loads"),
        ('os.path.exists("last.pt")', 'rank == 0 and os.path.exists("last.pt")', "resume.same"),
        ("    optimizer.load_state_dict(", "    dict(", "resume.same"),
        ('os.path.exists("last.pt")', 'os.path.exists("first.pt")', "resume.same"),
        ('start = state["epoch"] + 1', 'start = state["epoch"]', "resume.same"),
    ],
    ids=["wrapper's keys", "one rank loads", "optimizer not loaded", "nothing loaded", "an epoch again"],
)
def test_a_wrong_one_does_not(old: str, new: str, check: str, tmp_path: Path) -> None:
    assert old in CONVERTED
    assert verdicts(tmp_path, CONVERTED.replace(old, new))[check] == "fails"
