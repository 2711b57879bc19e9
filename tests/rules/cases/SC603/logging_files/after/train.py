import logging

import torch

from logs import make_logger

if rank != 0:
    logging.disable(logging.WARNING)
log = make_logger("train.log")


def main():
    net = torch.nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    log.info("%d parameters", sum(p.numel() for p in net.parameters()))
    for i in range(10):
        opt.zero_grad()
        net(torch.randn(2, 3)).sum().backward()
        opt.step()
        logging.debug("round %d", i)


if __name__ == "__main__":
    main()
