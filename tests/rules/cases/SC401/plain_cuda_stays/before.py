import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
memory = torch.cuda.get_device_properties(0).total_memory
net = nn.Linear(5, 5).to(device)
other = nn.Linear(5, 5).cuda()
opt = torch.optim.SGD([*net.parameters(), *other.parameters()], lr=0.1)
for number in range(4):
    opt.zero_grad()
    other(net(torch.randn(1, 5).cuda(non_blocking=True))).sum().backward()
    opt.step()
