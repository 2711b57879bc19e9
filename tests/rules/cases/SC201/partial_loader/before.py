from functools import partial

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

make = partial(DataLoader, batch_size=8, shuffle=True, drop_last=True)
data = TensorDataset(torch.randn(60, 4), torch.randint(0, 2, (60,)))
loader = make(data)
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
