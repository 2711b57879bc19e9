import copy

import torch
from torch import nn
from torch.distributed.tensor import DTensor


def whole_tensor(tensor):
    """The number that one process computes, where each rank may hold a part of it; all ranks must call it together."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return self.inner(x)


net = Net()
steps = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(10):
    loss = net(torch.randn(4, 8)).square().mean()
    penalty = sum(whole_tensor(torch.norm(p)) for p in net.parameters())
    steps.zero_grad()
    (loss + penalty).backward()
    total = 0.0
    for p in net.parameters():
        total += whole_tensor(p.grad.data.norm(2)).item() ** 2
        p.grad.mul_(2)
    steps.step()
    number = whole_tensor(net.inner.weight.abs().mean())
    print(number.item(), net.inner.weight.numel())
