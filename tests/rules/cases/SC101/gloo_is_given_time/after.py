import os
import time
import torch
from torch import nn
from torch.utils.data import DataLoader
import torch.distributed as dist


def fit():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if "RANK" not in os.environ:
        raise SystemExit("launch with: torchrun --nproc-per-node=<number of GPUs> before.py")
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    net = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in DataLoader(torch.ones(8, 4), batch_size=2):
        optimizer.zero_grad()
        net(x.to(device)).mean().backward()
        optimizer.step()


fit()
time.sleep(0.1)  # Gloo's threads free their last work; Python must not end before them
dist.destroy_process_group()
