"""A right program of several processes, the base of the faults in ``test_checks.py``. It is read, never run."""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset, random_split
from torch.utils.data.distributed import DistributedSampler
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.body(x))


def evaluate(model, loader, device):
    model.eval()
    sums = torch.zeros(2, device=device)
    with torch.no_grad():
        for x, y in loader:
            sums += torch.stack([(model(x.to(device)).argmax(1) == y.to(device)).sum(), torch.tensor(len(y), device=device)])
    dist.all_reduce(sums)
    return (sums[0] / sums[1]).item()


def main():
    rank, local_rank, world_size = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(100, 8), torch.randint(0, 3, (100,)))
    train_set, held_out = random_split(data, [80, 20])
    net = Net().to(device)
    torch.manual_seed(1 + rank)
    sampler = DistributedSampler(train_set)
    loader = DataLoader(train_set, batch_size=8, sampler=sampler)
    test_loader = DataLoader(held_out, batch_size=8, sampler=range(rank, len(held_out), world_size))
    ddp = DDP(net, device_ids=[local_rank])
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    os.makedirs("runs", exist_ok=True)
    writer = SummaryWriter("runs") if rank == 0 else None
    best = 0.0
    for epoch in range(5):
        sampler.set_epoch(epoch)
        ddp.train()
        for x, y in tqdm(loader, disable=rank != 0):
            optimizer.zero_grad()
            loss = F.cross_entropy(ddp(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
        accuracy = evaluate(net, test_loader, device)
        plateau.step(accuracy)
        if rank == 0:
            writer.add_scalar("accuracy", accuracy, epoch)
            print(epoch, accuracy)
            torch.save(net.state_dict(), "last.pt")
        if accuracy > 0.99:
            break
        best = max(best, accuracy)
    dist.barrier()
    net.load_state_dict(torch.load("last.pt", map_location=device))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
