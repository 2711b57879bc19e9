import argparse
import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler


class Points(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(3)
        self.x = torch.randn(n, 5, generator=g)
        self.y = (self.x.sum(1) > 1).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i] + 0.05 * torch.randn(5), self.y[i]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(7)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    data = Points(160)
    weights = torch.where(data.y == 1, 3.0, 0.5)
    sampler = WeightedRandomSampler(weights, len(data))
    loader = DataLoader(data, batch_size=20, sampler=sampler, drop_last=True, num_workers=1)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.05, total_steps=args.epochs * len(loader) // 2
    )
    criterion = nn.CrossEntropyLoss(reduction="sum")
    os.makedirs("out", exist_ok=True)
    for epoch in range(args.epochs):
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x.to(device)), y.to(device)) / 10
            loss.backward()
            if (i + 1) % 2 == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
        torch.save(model.state_dict(), f"out/epoch{epoch}.pt")
    print("done", args.epochs)


if __name__ == "__main__":
    main()
