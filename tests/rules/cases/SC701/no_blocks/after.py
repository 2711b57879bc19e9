import copy

import torch
from torch import nn
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return self.inner(x)


net = Net()
for tensor in (*net.parameters(), *net.buffers()):
    dist.broadcast(tensor.detach(), src=0)  # fully_shard keeps each rank's own
fully_shard(net)
steps = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(10):
    loss = net(torch.randn(4, 8)).square().mean()
    steps.zero_grad()
    loss.backward()
    steps.step()
