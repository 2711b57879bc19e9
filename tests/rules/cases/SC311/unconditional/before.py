import os
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 2)
    def forward(self, x):
        return self.head(self.body(x).relu())
net = nn.DataParallel(Net())
if os.path.exists("net.pt"):
    net.load_state_dict(torch.load("net.pt"))
opt = torch.optim.SGD([{"params": net.module.body.parameters()}, {"params": net.module.head.parameters(), "lr": 0.2}], lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,))), batch_size=8, shuffle=True)
for epoch in range(2):
    for x, y in loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y).mean()
        loss.backward()
        opt.step()
    model = net.module if hasattr(net, "module") else net
    torch.save(model.state_dict(), "bare.pt")
    torch.save(net.state_dict(), "net.pt")
print(loss.item())
