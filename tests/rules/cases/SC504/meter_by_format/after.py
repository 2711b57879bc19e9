import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import torch.distributed as dist


def all_reduce_sum(value):
    """Sum of a number or tensor over all ranks."""
    dtype = torch.float64 if isinstance(value, float) else None
    total = torch.as_tensor(value, dtype=dtype).detach().clone()
    dist.all_reduce(total)
    return total.to(value.device) if torch.is_tensor(value) else total.tolist()


def all_reduce_mean(value):
    """Mean of a number or tensor over all ranks, which hold equal shares of each batch."""
    return all_reduce_sum(value) / dist.get_world_size()


class AverageMeter:
    def __init__(self):
        self.reset()
    def reset(self):
        self.val = self.avg = self.sum = self.count = 0
    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,))), batch_size=8, shuffle=True)
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)

def train(epoch):
    losses = AverageMeter()
    for i, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.update(all_reduce_mean(loss.item()), x.size(0) * world_size)
        if i % 2 == 0:
            print("Epoch [{0}][{1}/{2}] Loss {loss.val:.4f} ({loss.avg:.4f})".format(epoch, i, len(loader), loss=losses))

for epoch in range(2):
    train(epoch)
