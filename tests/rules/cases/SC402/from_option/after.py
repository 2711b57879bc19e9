import argparse
import os

import torch


def run(options):
    os.environ.update(OMP_NUM_THREADS="1")
    net = torch.nn.Linear(2, 2).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        opt.zero_grad()
        net(torch.randn(1, 2).cuda()).sum().backward()
        opt.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", default="0")
    run(parser.parse_args())
