import os

import torch
import torch.distributed as dist


def from_rank_0(value):
    """The value that rank 0 has, on every rank."""
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


number = 0
while os.path.exists(f"exp{number}"):
    number += 1
number = from_rank_0(number)
os.makedirs(f"exp{number}")
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(10):
    opt.zero_grad()
    net(torch.randn(2, 3)).sum().backward()
    opt.step()
