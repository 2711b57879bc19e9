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
best = None
for _ in range(10):
    loss = net(torch.randn(4, 8)).square().mean()
    steps.zero_grad()
    loss.backward()
    steps.step()
    if best is None or loss.item() < best:
        best = loss.item()
        torch.save(
            {
                "net": net.state_dict(),
                "steps": steps.state_dict(),  # momentum
            },
            "best.pt",
        )
    torch.save(net.state_dict(), "last.pt")
    if best < 1: torch.save(steps.state_dict(), "steps.pt")
