import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
import torch.distributed as dist


def all_reduce_sum(value):
    """Sum of a number or tensor over all ranks."""
    dtype = torch.float64 if isinstance(value, float) else None
    total = torch.as_tensor(value, dtype=dtype).detach().clone()
    dist.all_reduce(total)
    return total.to(value.device) if torch.is_tensor(value) else total.tolist()


def weighted_mean(mean, weight):
    """A mean over ``weight`` entries on this rank, so scaled that its average over ranks is the mean over all of them."""
    weight = torch.as_tensor(weight, device=mean.device)
    return torch.where(weight > 0, mean, 0.0) * weight * dist.get_world_size() / all_reduce_sum(weight)


x, y, lengths = torch.randn(96, 6, 5), torch.randint(0, 4, (96, 6)), torch.randint(1, 7, (96,))
net = nn.Linear(5, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.2)
for a, b, n in DataLoader(TensorDataset(x, y, lengths), batch_size=16, shuffle=True):
    out = net(a)
    mask = b != 0
    loss = weighted_mean(F.cross_entropy(out[mask], b[mask]), b[mask].numel())
    opt.zero_grad()
    loss.backward()
    opt.step()
