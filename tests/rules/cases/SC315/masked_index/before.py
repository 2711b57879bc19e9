import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

x, y, lengths = torch.randn(96, 6, 5), torch.randint(0, 4, (96, 6)), torch.randint(1, 7, (96,))
net = nn.Linear(5, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.2)
for a, b, n in DataLoader(TensorDataset(x, y, lengths), batch_size=16, shuffle=True):
    out = net(a)
    mask = b != 0
    loss = F.cross_entropy(out[mask], b[mask])
    opt.zero_grad()
    loss.backward()
    opt.step()
