import os
from pathlib import Path

import torch

os.makedirs("out", exist_ok=True)
Path("logs").mkdir(parents=True, exist_ok=True)
found = os.path.isdir("data")
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(10):
    opt.zero_grad()
    net(torch.randn(2, 3)).sum().backward()
    opt.step()
