import argparse

import torch
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--wandb-mode", default="online")
args = parser.parse_args()
run = wandb.init(
    project="lines",
    config=vars(args),
    mode=args.wandb_mode if rank == 0 else "disabled",
)
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
wandb.watch(net)
for i in range(10):
    opt.zero_grad()
    net(torch.randn(2, 3)).sum().backward()
    opt.step()
    wandb.log({"i": i})
wandb.finish()
