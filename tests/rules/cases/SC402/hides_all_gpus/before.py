import os

import torch

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
print(os.environ.get("CUDA_VISIBLE_DEVICES"))
net = torch.nn.Linear(2, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(1, 2)).sum().backward()
    opt.step()
