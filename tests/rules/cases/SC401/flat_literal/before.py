import torch
from torch import nn

device = torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')
print(torch.cuda.get_device_name(0))
net = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(20):
    batch = torch.randn(16, 8, device=device)
    optimizer.zero_grad()
    loss = net(batch).pow(2).mean()
    loss.backward()
    optimizer.step()
