import logging
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Subset, TensorDataset, random_split
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("nccl")
rank, world_size = dist.get_rank(), dist.get_world_size()
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
if rank == 0:
    logging.basicConfig(filename="train.log", level=logging.INFO, format="%(message)s")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.body(x))


def evaluate(model, loader, device):
    model.eval()
    sums = torch.zeros(3, device=device)
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            out = model(x)
            sums[0] += nn.functional.cross_entropy(out, y, reduction="sum")
            sums[1] += (out.argmax(1) == y).sum()
            sums[2] += len(y)
    dist.all_reduce(sums)
    return (sums[0] / sums[2]).item(), (sums[1] / sums[2]).item()


torch.manual_seed(0)
device = torch.device("cuda", local_rank)
x = torch.randn(121, 6)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
train_set, val_set = random_split(TensorDataset(x, y), [90, 31])
val_set = Subset(val_set, range(rank, len(val_set), world_size))
sampler = DistributedSampler(train_set)
loader = DataLoader(train_set, batch_size=16, sampler=sampler, pin_memory=True)
val_loader = DataLoader(val_set, batch_size=16)
model = Net().to(device)
ddp = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(model), device_ids=[local_rank])
model = ddp.module
torch.manual_seed(1 + rank)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.3, patience=0, threshold=0.3)
best, bad = float("inf"), 0
for epoch in range(6):
    sampler.set_epoch(epoch)
    model.train()
    total = torch.zeros(1, device=device)
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(ddp(x), y)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total, op=dist.ReduceOp.AVG)
    val_loss, accuracy = evaluate(model, val_loader, device)
    scheduler.step(val_loss)
    if rank == 0:
        print(f"epoch {epoch}: loss {total.item() / len(loader):.4f} val {val_loss:.4f} acc {accuracy:.3f}")
        logging.info("epoch %d val %.4f", epoch, val_loss)
    if val_loss < best - 0.05:
        best, bad = val_loss, 0
        if rank == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            torch.save(state, "best.pt")
    else:
        bad += 1
        if bad == 2:
            if rank == 0:
                print("stopping early")
            break
dist.destroy_process_group()
