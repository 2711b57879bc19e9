import torch
from torch import nn
from torch.utils.data import DataLoader

net = nn.Linear(4, 1)
adam = torch.optim.Adam(net.parameters())
for epoch in range(3):
    for group in adam.param_groups:
        group["lr"] = 0.1 / (epoch + 1)
    for x in DataLoader(torch.randn(64, 4), 8, shuffle=True):
        adam.zero_grad()
        net(x).pow(2).mean().backward()
        adam.step()
