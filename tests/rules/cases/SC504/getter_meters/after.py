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


class Average:
    def __init__(self):
        self.total, self.count = 0.0, 0
    def add(self, value, n):
        self.total += value * n
        self.count += n
    @property
    def mean(self):
        return self.total / self.count
    def result(self):
        if self.count == 0:
            return 0.0
        return self.total / self.count

loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,))), batch_size=8, shuffle=True)
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    losses, hits = Average(), Average()
    for x, y in loader:
        out = model(x)
        loss = nn.functional.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.add(loss.item(), len(y))
        hits.add((out.argmax(1) == y).float().mean().item(), len(y))
    mean_hits = all_reduce_mean(hits.result())
    mean_mean = all_reduce_mean(losses.mean)
    print(f"epoch {epoch} loss {mean_mean:.4f} accuracy {mean_hits:.4f}")
