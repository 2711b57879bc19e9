import time

import torch

begin = time.perf_counter()
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(10):
    opt.zero_grad()
    net(torch.randn(2, 3)).sum().backward()
    opt.step()
stamp = time.strftime("%H:%M")
print(stamp, time.perf_counter() - begin)
torch.save({"net": net.state_dict(), "at": time.time()}, "net.pt")
