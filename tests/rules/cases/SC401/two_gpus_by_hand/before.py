import torch
from torch import nn

lower = nn.Linear(10, 10).to("cuda:0")
upper = nn.Linear(10, 1).to("cuda:1")
params = list(lower.parameters()) + list(upper.parameters())
opt = torch.optim.SGD(params, lr=0.1)
for _ in range(10):
    hidden = lower(torch.randn(4, 10, device="cuda:0"))
    opt.zero_grad()
    upper(hidden.to("cuda:1")).mean().backward()
    opt.step()
