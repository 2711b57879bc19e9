import torch
from torch import nn
from torch.utils.data import DataLoader

net = nn.Linear(8, 4)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for x in DataLoader(torch.randn(64, 8), batch_size=16, shuffle=True):
    a, b = net(x), net(x + 0.1)
    logits = torch.matmul(a, b.t())
    loss = nn.functional.cross_entropy(logits, torch.arange(len(x)))
    sgd.zero_grad()
    loss.backward()
    sgd.step()
