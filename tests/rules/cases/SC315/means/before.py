import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

net = nn.Linear(5, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.2)
data = TensorDataset(torch.randn(96, 5), torch.randint(0, 4, (96,)))
for a, b in DataLoader(data, batch_size=16, shuffle=True):
    out = net(a)
    loss = F.cross_entropy(out, b) + 0.1 * F.mse_loss(out, torch.zeros_like(out)).mul(2)
    loss = loss + out.pow(2).sum() / a.size(0) + 1e-4 * sum(p.norm() for p in net.parameters())
    opt.zero_grad()
    (loss / 2).backward()
    opt.step()
