import os
import tempfile

import torch
import torch.distributed as dist


def from_rank_0(value):
    """The value that rank 0 has, on every rank."""
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def next_run(root):
    return from_rank_0(os.path.join(root, f"run_{len(os.listdir(root)):03d}"))


folder = next_run("runs")
os.makedirs(folder)
scratch = from_rank_0(tempfile.mkdtemp() if rank == 0 else None)
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(10):
    opt.zero_grad()
    net(torch.randn(2, 3)).sum().backward()
    opt.step()
