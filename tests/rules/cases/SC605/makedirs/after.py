import os
from os import mkdir
from pathlib import Path

import torch

out = "out"
if not os.path.exists(out):
    os.makedirs(out, exist_ok=True)
if not os.path.isdir(os.path.join(out, "plots")):
    os.makedirs(os.path.join(out, "plots"), exist_ok=True)
os.makedirs("a/b", 0o755, exist_ok=True)
os.makedirs("c", exist_ok=True)
os.makedirs("d", exist_ok=True)
folder = Path(out) / "checkpoints"
folder.mkdir(exist_ok=True)
Path("logs").mkdir(parents=True, exist_ok=True)
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(10):
    opt.zero_grad()
    net(torch.randn(2, 3)).sum().backward()
    opt.step()
