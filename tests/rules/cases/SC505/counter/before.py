from collections import Counter

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

net = nn.Linear(4, 2)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.arange(64) % 2), 8, shuffle=True)
for epoch in range(2):
    seen = Counter()
    for x, y in loader:
        seen.update(y.tolist())
        sgd.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        sgd.step()
    print(epoch, seen.most_common(1))
