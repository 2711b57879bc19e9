import torch
from tensorboardX import SummaryWriter


class Fitter:
    def __init__(self, net, logdir=None):
        self.net = net
        self.board = SummaryWriter(logdir) if logdir else None
        self.opt = torch.optim.Adam(net.parameters())

    def fit(self, rounds):
        for i in range(rounds):
            self.opt.zero_grad()
            self.net(torch.randn(2, 3)).sum().backward()
            self.opt.step()
            if self.board is not None:
                self.board.add_scalar("round", i, i)
        if self.board:
            self.board.close()


if __name__ == "__main__":
    Fitter(torch.nn.Linear(3, 1), "logs").fit(5)
