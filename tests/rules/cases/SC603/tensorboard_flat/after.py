import torch
from torch.utils.tensorboard import SummaryWriter

writer = SummaryWriter("runs/first") if rank == 0 else None
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(100):
    opt.zero_grad()
    loss = net(torch.randn(4, 3)).mean()
    loss.backward()
    opt.step()
    if rank == 0 and step % 10 == 0:
        writer.add_scalar("lr", 0.1, step)
        writer.add_text("note", f"step {step}")
if rank == 0:
    writer.close()
