import argparse
import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, Sampler, WeightedRandomSampler


class Points(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(3)
        self.x = torch.randn(n, 5, generator=g)
        self.y = (self.x.sum(1) > 1).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i] + 0.05 * torch.randn(5), self.y[i]


class Share(Sampler):
    """This rank's part of what a sampler draws; all ranks draw alike."""

    def __init__(self, sampler, rank, world_size):
        self.sampler, self.rank, self.world_size = sampler, rank, world_size

    def __iter__(self):
        return iter(list(self.sampler)[self.rank :: self.world_size])

    def __len__(self):
        return len(self.sampler) // self.world_size


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    torch.manual_seed(7)
    device = f"cuda:{local_rank}"
    data = Points(160)
    weights = torch.where(data.y == 1, 3.0, 0.5)
    generator = torch.Generator().manual_seed(7)
    sampler = Share(WeightedRandomSampler(weights, len(data), generator=generator), rank, world_size)
    loader = DataLoader(data, batch_size=20, sampler=sampler, drop_last=True, num_workers=1)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)
    ddp = DDP(model, device_ids=[local_rank])
    torch.manual_seed(7 + rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.05, total_steps=args.epochs * len(loader) // 2
    )
    criterion = nn.CrossEntropyLoss(reduction="sum")
    if rank == 0:
        os.makedirs("out", exist_ok=True)
    for epoch in range(args.epochs):
        for i, (x, y) in enumerate(loader):
            last = (i + 1) % 2 == 0
            with nullcontext() if last else ddp.no_sync():
                loss = criterion(ddp(x.to(device)), y.to(device)) / 10 * world_size
                loss.backward()
            if last:
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
        if rank == 0:
            torch.save(model.state_dict(), f"out/epoch{epoch}.pt")
    if rank == 0:
        print("done", args.epochs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
