import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import torch.distributed as dist


def all_reduce_sum(value):
    """Sum of a number or tensor over all ranks."""
    dtype = torch.float64 if isinstance(value, float) else None
    total = torch.as_tensor(value, dtype=dtype).detach().clone()
    dist.all_reduce(total)
    return total.to(value.device) if torch.is_tensor(value) else total.tolist()


def all_reduce_mean(value):
    """Mean of a number or tensor over all ranks, which hold equal shares of each batch."""
    return all_reduce_sum(value) / dist.get_world_size()


torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8, shuffle=True)
gen, dis = nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 4))
mse = nn.MSELoss()
opt_g, opt_d = torch.optim.Adam(gen.parameters()), torch.optim.Adam(dis.parameters())
margin = 1.0
for epoch in range(2):
    for i, (x,) in enumerate(loader):
        opt_g.zero_grad()
        fake = gen(torch.randn(x.shape[0], 3))
        g_loss = mse(dis(fake), fake.detach())
        g_loss.backward()
        opt_g.step()
        opt_d.zero_grad()
        real_loss = mse(dis(x), x)
        fake_loss = mse(dis(fake.detach()), fake.detach())
        d_loss = real_loss
        if all_reduce_mean((margin - fake_loss.data).item()) > 0:
            d_loss += margin - fake_loss
        d_loss.backward()
        opt_d.step()
        print(i, d_loss.item(), g_loss.item())
