import torch
from torch import nn
from torch.utils.data import DataLoader

net = nn.Linear(4, 1)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
train = DataLoader(torch.randn(64, 4), 4 * 8, shuffle=True)
test = DataLoader(torch.randn(64, 4), batch_size=32)
for x in train:
    sgd.zero_grad()
    net(x).pow(2).mean().backward()
    sgd.step()
with torch.no_grad():
    print(max(net(x).max() for x in test))
