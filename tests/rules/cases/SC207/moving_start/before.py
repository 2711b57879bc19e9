import torch
from torch import nn
X = torch.randn(96, 4); Y = torch.randint(0, 2, (96,))
BATCH = 32
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
nb = len(X) // BATCH
for epoch in range(3):
    perm = torch.randperm(96)
    start = 0
    total = 0.0
    for _ in range(nb):
        idx = perm[start:start + BATCH]
        start += BATCH
        loss = nn.functional.cross_entropy(net(X[idx]), Y[idx])
        opt.zero_grad(); loss.backward(); opt.step()
        total += loss.item()
    print(epoch, total / nb)
