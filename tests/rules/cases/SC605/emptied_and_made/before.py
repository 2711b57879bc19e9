import os
import shutil

import torch


def fresh(folder):
    if os.path.exists(folder):
        shutil.rmtree(folder)
    os.makedirs(folder)


def main():
    fresh("run")
    net = torch.nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(10):
        opt.zero_grad()
        net(torch.randn(2, 3)).sum().backward()
        opt.step()


if __name__ == "__main__":
    main()
