import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
lab = DataLoader(TensorDataset(torch.randn(32, 4), torch.randint(0, 2, (32,))), batch_size=8, shuffle=True, drop_last=True)
unl = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8, shuffle=True, drop_last=True)
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    it_x, it_u = iter(lab), iter(unl)
    for step in range(10):
        try:
            x, y = next(it_x)
        except StopIteration:
            it_x = iter(lab)
            x, y = next(it_x)
        try:
            (u,) = next(it_u)
        except StopIteration:
            it_u = iter(unl)
            (u,) = next(it_u)
        loss = nn.functional.cross_entropy(model(x), y) + 0.1 * model(u).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
