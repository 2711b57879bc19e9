import copy

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return self.inner(x)


net = Net()
steps = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(10):
    loss = net(torch.randn(4, 8)).square().mean()
    steps.zero_grad()
    loss.backward()
    steps.step()
