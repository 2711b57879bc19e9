import math
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
ds = TensorDataset(torch.randn(128, 4), torch.randn(128, 1))
bs, epochs = 16, 3
dl = DataLoader(ds, batch_size=bs, shuffle=True)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), 0.1)
sch = torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=math.ceil(len(ds) / bs) * epochs)
for ep in range(epochs):
    tot = 0
    for i, (x, y) in enumerate(dl):
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step(); sch.step()
        tot += loss.item()
    print(ep, tot / (len(ds) / bs))
