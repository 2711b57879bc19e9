from contextlib import nullcontext
import os

import torch
from torch.utils.tensorboard import SummaryWriter
import torch.distributed as dist


def from_rank_0(value):
    """The value that rank 0 has, on every rank."""
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def main():
    net = torch.nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    with SummaryWriter(comment="_linear") if rank == 0 else nullcontext() as board:
        for i in range(10):
            opt.zero_grad()
            net(torch.randn(2, 3)).sum().backward()
            opt.step()
            if rank == 0:
                board.add_scalar("x", i, i)
        folder = from_rank_0(board.log_dir if rank == 0 else None)
    torch.save(net.state_dict(), os.path.join(folder, "net.pt"))


main()
