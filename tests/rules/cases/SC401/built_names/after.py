import sys

import torch
from torch import nn

gpu = int(sys.argv[1])
first = torch.device("cuda")
second = torch.device("cuda")
third = torch.device("cuda")
fourth = torch.device("cuda")
weight = torch.ones(3, device="cuda")
layer = nn.Linear(3, 3).to("cuda")
state = torch.load("start.pt", map_location="cuda")
layer.load_state_dict(state)
sgd = torch.optim.SGD(layer.parameters(), lr=1e-2)
for _ in range(5):
    sgd.zero_grad()
    layer(torch.randn(3, device=first) * weight).sum().backward()
    sgd.step()
