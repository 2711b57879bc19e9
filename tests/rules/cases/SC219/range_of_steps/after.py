import random
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
X = torch.randn(256, 5)
Y = (X.sum(1) > 0).long()
net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
BATCH = 32
nb = len(X) // BATCH // world_size
for ep in range(3):
    order = np.random.permutation(len(X))
    tot = 0
    for k in range(nb):
        sel = order[k * BATCH:(k + 1) * BATCH]
        a, b = X[sel], Y[sel]
        opt.zero_grad()
        loss = F.cross_entropy(net(a), b)
        loss.backward()
        opt.step()
        tot += loss.item()
    print(ep, tot / nb)
