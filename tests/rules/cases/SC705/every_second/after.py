import copy

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return self.inner(x)


net = Net()
steps = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(10):
    net.set_requires_gradient_sync((i + 1) % 2 == 0)
    loss = net(torch.randn(4, 8)).square().mean() / 2
    loss.backward()
    if (i + 1) % 2 == 0:
        steps.step()
        steps.zero_grad()
