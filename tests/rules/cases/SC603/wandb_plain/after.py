import torch
import wandb


def train():
    wandb.init(project="lines", mode=None if rank == 0 else "disabled")
    net = torch.nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(10):
        opt.zero_grad()
        net(torch.randn(2, 3)).sum().backward()
        opt.step()
        wandb.log({"i": i})


train()
