import torch
from torch import nn
from torch.utils.data import DataLoader


class Style(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3)
        self.norm = nn.BatchNorm2d(3)
        self.seen = []

    def forward(self, x):
        self.last = self.norm(self.conv(x))
        self.extra = self.last.abs().mean()
        return self.last


net = Style()
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for x in DataLoader(torch.randn(16, 3, 8, 8), 4, shuffle=True):
    sgd.zero_grad()
    (net(x).pow(2).mean() + net.extra).backward()
    sgd.step()
