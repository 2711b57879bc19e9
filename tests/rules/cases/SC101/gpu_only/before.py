import torch
from torch import nn
from torch.utils.data import DataLoader

net = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in DataLoader(torch.ones(8, 4), batch_size=2):
    optimizer.zero_grad()
    net(x.cuda()).mean().backward()
    optimizer.step()
