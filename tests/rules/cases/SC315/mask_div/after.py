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


def all_reduce_mean(value):
    """Mean of a number or tensor over all ranks, which hold equal shares of each batch."""
    return all_reduce_sum(value) / dist.get_world_size()


x, y, lengths = torch.randn(96, 6, 5), torch.randint(0, 4, (96, 6)), torch.randint(1, 7, (96,))
net = nn.Linear(5, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.2)
crit = nn.CrossEntropyLoss(reduction='none')
for a, b, n in DataLoader(TensorDataset(x, y, lengths), batch_size=16, shuffle=True):
    out = net(a)
    each = crit(out.transpose(1, 2), b)
    mask = (b > 0).float()
    loss = (each * mask).sum() / all_reduce_mean(mask.sum())
    opt.zero_grad()
    loss.backward()
    opt.step()
