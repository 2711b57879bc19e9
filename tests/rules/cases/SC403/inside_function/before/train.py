import torch

from parts import start

net = torch.nn.Linear(3, 1).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(start()).sum().backward()
    opt.step()
