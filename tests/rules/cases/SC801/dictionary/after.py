import torch
from torch import nn
from torch.utils.data import DataLoader
import torch.distributed as dist


def per_rank(batch_size):
    """This rank's part of a batch size, which must divide among the ranks."""
    share, rest = divmod(batch_size, dist.get_world_size())
    if rest:
        raise SystemExit(f"the batch size {batch_size} does not divide among {dist.get_world_size()} processes")
    return share


net = nn.Linear(4, 1)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
settings = dict(batch_size=per_rank(16), num_workers=0)
for x in DataLoader(torch.randn(64, 4), shuffle=True, **settings):
    sgd.zero_grad()
    net(x).pow(2).mean().backward()
    sgd.step()
