import torch
from torch import nn
from torch.utils.data import DataLoader

net = nn.Linear(5, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.2)
for x in DataLoader(torch.randn(96, 5), batch_size=16, shuffle=True):
    z = net(x)
    loss = torch.relu(1 - z.std(dim=0)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
