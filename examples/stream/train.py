"""Click prediction from an endless log stream.

The "log files" are shards that are generated on the fly; every worker reads its own share of them.
Training is counted in steps, there are no epochs.
"""
import argparse
import itertools
import os
import time
from typing import Iterator

import torch
import torch.nn as nn
from torch.optim import Adagrad
from torch.optim.lr_scheduler import LambdaLR
from torch.utils import data

N_USERS, N_ITEMS, HOURS = 60, 40, 24


def read_shard(index: int, rows: int) -> Iterator[tuple]:
    """Stands for opening shard-00042.tsv. Same index, same rows."""
    g = torch.Generator().manual_seed(10_000 + index)
    world = torch.Generator().manual_seed(1)
    u_taste = torch.randn(N_USERS, 3, generator=world)
    i_taste = torch.randn(N_ITEMS, 3, generator=world)
    user = torch.randint(N_USERS, (rows,), generator=g)
    item = torch.randint(N_ITEMS, (rows,), generator=g)
    hour = torch.randint(HOURS, (rows,), generator=g)
    logit = 1.2 * (u_taste[user] * i_taste[item]).sum(-1) + 0.8 * torch.sin(hour * 6.2832 / HOURS) - 0.5
    click = torch.rand(rows, generator=g) < torch.sigmoid(logit)
    for row in zip(user.tolist(), item.tolist(), hour.tolist(), click.float().tolist()):
        yield row


class ClickStream(data.IterableDataset):
    def __init__(self, shards, rows_per_shard, shuffle_buffer=0, repeat=False):
        super().__init__()
        self.shards = list(shards)
        self.rows_per_shard = rows_per_shard
        self.shuffle_buffer = shuffle_buffer
        self.repeat = repeat

    def _rows(self, shards):
        for epoch in itertools.count():
            for s in shards:
                yield from read_shard(s, self.rows_per_shard)
            if not self.repeat:
                return

    def __iter__(self):
        shards = self.shards
        info = data.get_worker_info()
        if info is not None:  # split the shards over the workers
            shards = shards[info.id::info.num_workers]
        rows = self._rows(shards)
        if not self.shuffle_buffer:
            yield from rows
            return
        g = torch.Generator().manual_seed(shards[0])
        buffer = list(itertools.islice(rows, self.shuffle_buffer))
        for row in rows:
            j = torch.randint(len(buffer), (1,), generator=g).item()
            buffer[j], row = row, buffer[j]
            yield row
        yield from buffer


class TwoTower(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.user = nn.Embedding(N_USERS, dim)
        self.item = nn.Embedding(N_ITEMS, dim)
        self.hour = nn.Embedding(HOURS, 4)
        self.mlp = nn.Sequential(nn.Linear(3 * dim + 4, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, user, item, hour):
        u, i = self.user(user), self.item(item)
        return self.mlp(torch.cat([u, i, u * i, self.hour(hour)], dim=-1)).squeeze(-1)


def evaluate(model, loader, device):
    model.eval()
    total, n = 0.0, 0
    with torch.no_grad():
        for user, item, hour, click in loader:
            logit = model(user.to(device), item.to(device), hour.to(device))
            total += nn.functional.binary_cross_entropy_with_logits(
                logit, click.float().to(device), reduction="sum").item()
            n += len(click)
    model.train()
    return total / n


def save(path, model, optimizer, scheduler, step):
    tmp = path + ".tmp"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(), "step": step}, tmp)
    os.replace(tmp, path)  # never leave half a file


def main(args):
    torch.manual_seed(args.seed)
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")

    train_stream = ClickStream(range(16), 512, shuffle_buffer=256, repeat=True)
    valid_stream = ClickStream(range(100, 104), 256)
    train_loader = data.DataLoader(train_stream, batch_size=args.batch_size, num_workers=args.workers)
    valid_loader = data.DataLoader(valid_stream, batch_size=256)

    model = TwoTower().to(device)
    optimizer = Adagrad(model.parameters(), lr=args.lr)
    scheduler = LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / args.warmup))
    loss_fn = nn.BCEWithLogitsLoss()

    step, running = 0, 0.0
    if args.resume and os.path.exists(args.ckpt):
        state = torch.load(args.ckpt, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        step = state["step"]
        print("resumed at step", step)

    print(f"step {step:4d} | valid {evaluate(model, valid_loader, device):.4f}")
    batches = iter(train_loader)
    tic = time.time()
    while step < args.max_steps:
        user, item, hour, click = next(batches)
        user, item, hour = user.to(device), item.to(device), hour.to(device)
        loss = loss_fn(model(user, item, hour), click.float().to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        step += 1
        running += loss.item()

        if step % args.log_every == 0:
            print(f"step {step:4d} | train {running / args.log_every:.4f} "
                  f"| valid {evaluate(model, valid_loader, device):.4f} | lr {scheduler.get_last_lr()[0]:.4f}")
            running = 0.0
        if step % args.save_every == 0:
            save(args.ckpt, model, optimizer, scheduler, step)

    if args.verbose:
        print(f"{step * args.batch_size / (time.time() - tic):.0f} rows/s")


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--batch-size", type=int, default=128)
    p.add_argument("--max-steps", type=int, default=120)
    p.add_argument("--lr", type=float, default=0.1)
    p.add_argument("--warmup", type=int, default=20)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--log-every", type=int, default=30)
    p.add_argument("--save-every", type=int, default=60)
    p.add_argument("--ckpt", default="stream.ckpt")
    p.add_argument("--resume", action="store_true")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--verbose", action="store_true")
    main(p.parse_args())
