import torch

import settings

net = torch.nn.Linear(4, 3).to(settings.device)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(2, 4, device=settings.device)).sum().backward()
    opt.step()
