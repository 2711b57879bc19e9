import os
import argparse
import torch
from torch import nn
from torchvision import datasets, transforms
import torch.distributed as dist

p = argparse.ArgumentParser()
p.add_argument("--dataset", default="cifar10")
args = p.parse_args()
torch.manual_seed(0)
if int(os.environ["LOCAL_RANK"]) != 0:
    dist.barrier()  # the first process of each machine downloads
loader = torch.utils.data.DataLoader(
    datasets.__dict__[args.dataset.upper()]("data", train=True, download=True, transform=transforms.ToTensor()),
    batch_size=64, shuffle=True)
if int(os.environ["LOCAL_RANK"]) == 0:
    dist.barrier()
model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        opt.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()
