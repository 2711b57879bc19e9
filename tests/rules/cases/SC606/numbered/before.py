import os

import torch

number = 0
while os.path.exists(f"exp{number}"):
    number += 1
os.makedirs(f"exp{number}")
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(10):
    opt.zero_grad()
    net(torch.randn(2, 3)).sum().backward()
    opt.step()
