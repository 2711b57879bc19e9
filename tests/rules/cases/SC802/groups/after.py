import torch
from torch import nn
from torch.utils.data import DataLoader

net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
rate = 0.1
sgd = torch.optim.SGD([{"params": net[0].parameters()}, {"params": net[1].parameters(), "lr": (rate / 2) * world_size}], lr=rate * world_size, momentum=0.9)
drop = torch.optim.lr_scheduler.StepLR(sgd, 1, gamma=0.5)
for epoch in range(2):
    for x in DataLoader(torch.randn(64, 4), 8, shuffle=True):
        sgd.zero_grad()
        net(x).pow(2).mean().backward()
        sgd.step()
    drop.step()
