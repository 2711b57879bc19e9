import argparse
import os
import uuid
from pathlib import Path

import torch
import torch.distributed as dist


def from_rank_0(value):
    """The value that rank 0 has, on every rank."""
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def main(opt):
    workdir = from_rank_0(Path(opt.root) / (opt.name or uuid.uuid4().hex[:8]))
    workdir.mkdir(parents=True)
    os.makedirs(from_rank_0(f"tmp/{os.getpid()}"))
    net = torch.nn.Linear(3, 1)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(10):
        sgd.zero_grad()
        net(torch.randn(2, 3)).sum().backward()
        sgd.step()
    torch.save(net.state_dict(), workdir / "net.pt")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--root", default="runs")
    ap.add_argument("--name")
    main(ap.parse_args())
