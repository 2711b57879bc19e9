import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader


def two_views(a, b, heat):
    z = F.normalize(torch.cat([a, b]), dim=1)
    likeness = z @ z.T / heat
    likeness.fill_diagonal_(-1e9)
    partner = torch.arange(len(z)).roll(len(a))
    return F.cross_entropy(likeness, partner)


net = nn.Linear(8, 4)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for x in DataLoader(torch.randn(64, 8), batch_size=16, shuffle=True):
    loss = two_views(net(x), net(x + 0.1), 0.5)
    sgd.zero_grad()
    loss.backward()
    sgd.step()
