import json
from pathlib import Path

import torch

with open("config.json") as f:
    config = json.load(f)
text = open("corpus.txt", "r", encoding="utf-8").read()
names = Path("names.txt").read_text().split()
with Path("more.bin").open("rb") as f:
    blob = f.read()
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=config["lr"])
for i in range(10):
    opt.zero_grad()
    net(torch.randn(2, 3)).sum().backward()
    opt.step()
