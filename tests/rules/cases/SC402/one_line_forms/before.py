import os; os.environ["CUDA_VISIBLE_DEVICES"] = "1"
from os import environ

import torch

environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
os.putenv("CUDA_VISIBLE_DEVICES", "0")
environ.update({"CUDA_VISIBLE_DEVICES": "0", "TOKENIZERS_PARALLELISM": "false"})
net = torch.nn.Linear(2, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(1, 2).cuda()).sum().backward()
    opt.step()
