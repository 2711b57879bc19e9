import os
from os import mkdir
from pathlib import Path

import torch

out = "out"
if not os.path.exists(out):
    os.makedirs(out)
if not os.path.isdir(os.path.join(out, "plots")):
    os.mkdir(os.path.join(out, "plots"))
os.makedirs("a/b", 0o755)
os.makedirs("c", exist_ok=False)
mkdir("d")
folder = Path(out) / "checkpoints"
folder.mkdir()
Path("logs").mkdir(parents=True)
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(10):
    opt.zero_grad()
    net(torch.randn(2, 3)).sum().backward()
    opt.step()
