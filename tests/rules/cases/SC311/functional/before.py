import torch
from torch import nn
from torch.utils.data import DataLoader


class Net(nn.Module):
    def __init__(self, gpus):
        super().__init__()
        self.gpus = gpus
        self.main = nn.Linear(4, 1)

    def forward(self, x):
        if x.is_cuda and self.gpus > 1:
            return nn.parallel.data_parallel(self.main, x, range(self.gpus))
        return self.main(x)


net = Net(2)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for x in DataLoader(torch.randn(64, 4), 8, shuffle=True):
    sgd.zero_grad()
    net(x).pow(2).mean().backward()
    sgd.step()
