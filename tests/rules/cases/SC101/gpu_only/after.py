import os
import torch
from torch import nn
from torch.utils.data import DataLoader
import torch.distributed as dist

if "RANK" not in os.environ:
    raise SystemExit("launch with: torchrun --nproc-per-node=<number of GPUs> before.py")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
rank, world_size = dist.get_rank(), dist.get_world_size()
net = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in DataLoader(torch.ones(8, 4), batch_size=2):
    optimizer.zero_grad()
    net(x.cuda()).mean().backward()
    optimizer.step()
dist.destroy_process_group()
