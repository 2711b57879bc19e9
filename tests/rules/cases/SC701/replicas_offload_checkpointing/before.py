import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.mix(x)


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.floors = nn.ModuleList([Layer() for _ in range(3)])

    def forward(self, x):
        for floor in self.floors:
            x = floor(x)
        return x


tower = Tower().cuda()
steps = torch.optim.AdamW(tower.parameters(), lr=1e-3)
for _ in range(10):
    loss = tower(torch.randn(4, 8).cuda()).square().mean()
    steps.zero_grad()
    loss.backward()
    steps.step()
