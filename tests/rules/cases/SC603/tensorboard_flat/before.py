import torch
from torch.utils.tensorboard import SummaryWriter

writer = SummaryWriter("runs/first")
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(100):
    opt.zero_grad()
    loss = net(torch.randn(4, 3)).mean()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        writer.add_scalar("lr", 0.1, step)
        writer.add_text("note", f"step {step}")
writer.close()
