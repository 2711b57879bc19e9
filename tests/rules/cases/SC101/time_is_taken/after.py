import os
from time import sleep
from time import time

import torch
from torch import nn
from torch.utils.data import DataLoader
import torch.distributed as dist

if "RANK" not in os.environ:
    raise SystemExit("launch with: torchrun --nproc-per-node=<number of GPUs> before.py")
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
begin = time()
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in DataLoader(torch.ones(8, 4), batch_size=2):
    optimizer.zero_grad()
    net(x).mean().backward()
    optimizer.step()
elapsed = time() - begin
sleep(0.1)  # Gloo's threads free their last work; Python must not end before them
dist.destroy_process_group()
