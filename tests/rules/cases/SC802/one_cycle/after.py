import torch
from torch import nn
from torch.utils.data import DataLoader

net = nn.Linear(4, 1)
loader = DataLoader(torch.randn(64, 4), 8, shuffle=True)
adam = torch.optim.Adam(net.parameters(), 1e-3 * world_size ** 0.5)
cycle = torch.optim.lr_scheduler.OneCycleLR(adam, max_lr=0.01 * world_size ** 0.5, total_steps=len(loader))
for x in loader:
    adam.zero_grad()
    net(x).pow(2).mean().backward()
    adam.step()
    cycle.step()
