import os
from os import environ

import torch

environ.update({"TOKENIZERS_PARALLELISM": "false"})
net = torch.nn.Linear(2, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(1, 2).cuda()).sum().backward()
    opt.step()
