import argparse

import torch
import torch.nn as nn


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--gpu", type=int, default=0, help="index of the GPU")
    p.add_argument("--steps", type=int, default=50)
    return p.parse_args()


def main():
    opts = get_args()
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    mlp = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1)).cuda()
    adam = torch.optim.Adam(mlp.parameters())
    for _ in range(opts.steps):
        x = torch.rand(32, 4).cuda(non_blocking=True)
        loss = (mlp(x) - x.sum(1, keepdim=True).to(device)).abs().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()


if __name__ == "__main__":
    main()
