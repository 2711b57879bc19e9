import os

import torch
from torch.utils.tensorboard import SummaryWriter


def main():
    net = torch.nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    with SummaryWriter(comment="_linear") as board:
        for i in range(10):
            opt.zero_grad()
            net(torch.randn(2, 3)).sum().backward()
            opt.step()
            board.add_scalar("x", i, i)
        folder = board.log_dir
    torch.save(net.state_dict(), os.path.join(folder, "net.pt"))


main()
