import torch
from torch import nn
from torch.utils.data import DataLoader

net = nn.Linear(4, 1)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
settings = dict(batch_size=16, num_workers=0)
for x in DataLoader(torch.randn(64, 4), shuffle=True, **settings):
    sgd.zero_grad()
    net(x).pow(2).mean().backward()
    sgd.step()
