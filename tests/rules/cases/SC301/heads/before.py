import itertools
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8, shuffle=True)

class D(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.adv, self.code = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 2)
    def forward(self, x):
        h = torch.relu(self.body(x))
        return self.adv(h), self.code(h)

gen, dis = nn.Linear(5, 4), D()
mse = nn.MSELoss()
opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(dis.parameters(), lr=1e-3)
opt_i = torch.optim.Adam(itertools.chain(gen.parameters(), dis.parameters()), lr=1e-3)
for epoch in range(2):
    for i, (imgs,) in enumerate(loader):
        n = imgs.shape[0]
        valid, fake = torch.ones(n, 1), torch.zeros(n, 1)
        opt_g.zero_grad()
        z, code = torch.randn(n, 3), torch.rand(n, 2)
        out = gen(torch.cat([z, code], 1))
        mse(dis(out)[0], valid).backward()
        opt_g.step()
        opt_d.zero_grad()
        d_loss = (mse(dis(imgs)[0], valid) + mse(dis(out.detach())[0], fake)) / 2
        d_loss.backward()
        opt_d.step()
        opt_i.zero_grad()
        z, code = torch.randn(n, 3), torch.rand(n, 2)
        _, pred = dis(gen(torch.cat([z, code], 1)))
        mse(pred, code).backward()
        opt_i.step()
