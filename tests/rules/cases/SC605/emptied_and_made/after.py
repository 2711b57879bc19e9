import os
import shutil

import torch
import torch.distributed as dist


def fresh(folder):
    if os.path.exists(folder):
        if dist.get_rank() == 0:
            shutil.rmtree(folder)
    dist.barrier()  # rank 0 has emptied it
    os.makedirs(folder, exist_ok=True)


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
