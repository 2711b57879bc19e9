import argparse

import torch

cli = argparse.ArgumentParser()
cli.add_argument("--device", default="cuda")
args = cli.parse_args()
theta = torch.nn.Linear(2, 1).to(args.device)
opt = torch.optim.SGD(theta.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    theta(torch.randn(1, 2, device=args.device)).sum().backward()
    opt.step()
