import os
os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"

import torch

net = torch.nn.Linear(2, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(1, 2).cuda()).sum().backward()
    opt.step()
