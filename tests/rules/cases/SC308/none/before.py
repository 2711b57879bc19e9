import torch
from torch import nn
from torch.utils.data import DataLoader

net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 1)).cuda()
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for x in DataLoader(torch.randn(64, 4), 8, shuffle=True):
    sgd.zero_grad()
    net(x.cuda()).pow(2).mean().backward()
    sgd.step()
