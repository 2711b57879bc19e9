import os
import time
from datetime import datetime

import torch
import torch.distributed as dist


def from_rank_0(value):
    """The value that rank 0 has, on every rank."""
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


started = time.time()
stamp = from_rank_0(datetime.now().strftime("%Y%m%d-%H%M%S"))
run_dir = os.path.join("runs", f"linear-{stamp}")
os.makedirs(run_dir, exist_ok=True)
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(10):
    opt.zero_grad()
    net(torch.randn(2, 3)).sum().backward()
    opt.step()
print(f"{time.time() - started:.1f} s")
torch.save(net.state_dict(), os.path.join(run_dir, "net.pt"))
