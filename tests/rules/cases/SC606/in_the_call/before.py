import argparse
import os
import uuid
from pathlib import Path

import torch


def main(opt):
    workdir = Path(opt.root) / (opt.name or uuid.uuid4().hex[:8])
    workdir.mkdir(parents=True)
    os.makedirs(f"tmp/{os.getpid()}")
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
