import torch
from torch import nn
import torch.distributed as dist


def my_rows(batch):
    """This rank's rows of a batch that all ranks cut alike; all of them where there are fewer rows than ranks."""
    world_size = dist.get_world_size()
    return batch[dist.get_rank() :: world_size] if len(batch) >= world_size else batch


X = torch.randn(96, 4); Y = torch.randint(0, 2, (96,))
BATCH = 32
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
nb = len(X) // BATCH
for epoch in range(3):
    perm = torch.randperm(96)
    start = 0
    total = 0.0
    for _ in range(nb):
        idx = my_rows(perm[start:start + BATCH * world_size])
        start += BATCH * world_size
        loss = nn.functional.cross_entropy(net(X[idx]), Y[idx])
        opt.zero_grad(); loss.backward(); opt.step()
        total += loss.item()
    print(epoch, total / nb)
