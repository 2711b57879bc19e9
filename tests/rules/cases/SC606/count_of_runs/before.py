import os
import tempfile

import torch


def next_run(root):
    return os.path.join(root, f"run_{len(os.listdir(root)):03d}")


folder = next_run("runs")
os.makedirs(folder)
scratch = tempfile.mkdtemp()
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(10):
    opt.zero_grad()
    net(torch.randn(2, 3)).sum().backward()
    opt.step()
