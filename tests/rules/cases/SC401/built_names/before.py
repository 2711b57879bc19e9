import sys

import torch
from torch import nn

gpu = int(sys.argv[1])
first = torch.device("cuda:" + str(gpu))
second = torch.device("cuda:%d" % gpu)
third = torch.device("cuda:{}".format(gpu))
fourth = torch.device("cuda", gpu)
weight = torch.ones(3, device=0)
layer = nn.Linear(3, 3).to(0)
state = torch.load("start.pt", map_location={"cuda:1": "cuda:0"})
layer.load_state_dict(state)
sgd = torch.optim.SGD(layer.parameters(), lr=1e-2)
for _ in range(5):
    sgd.zero_grad()
    layer(torch.randn(3, device=first) * weight).sum().backward()
    sgd.step()
