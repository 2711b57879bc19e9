"""Cell segmentation with a tiny U-Net.

Mixed precision on GPU, gradient accumulation, one-cycle schedule, Dice on the whole validation set.
Each run writes to runs/<timestamp>/.
"""
import argparse
import csv
import math
import random
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.amp import GradScaler, autocast
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, Dataset


class CellDataset(Dataset):
    """Noisy 32x32 pictures with 2..5 round cells, and the mask of them."""

    def __init__(self, n: int, seed: int, augment: bool):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[:32, :32]
        self.images = np.empty((n, 1, 32, 32), np.float32)
        self.masks = np.zeros((n, 1, 32, 32), np.float32)
        for i in range(n):
            for _ in range(rng.integers(2, 6)):
                cy, cx, r = rng.uniform(4, 28), rng.uniform(4, 28), rng.uniform(2, 5)
                self.masks[i, 0][(yy - cy) ** 2 + (xx - cx) ** 2 < r * r] = 1
            gradient = 0.3 * (xx / 32 - 0.5) * rng.choice([-1, 1])
            self.images[i, 0] = 0.6 * self.masks[i, 0] + gradient + rng.normal(0, 0.35, (32, 32))
        self.augment = augment

    def __len__(self):
        return len(self.images)

    def __getitem__(self, idx):
        image = torch.from_numpy(self.images[idx])
        mask = torch.from_numpy(self.masks[idx])
        if self.augment:
            if random.random() < 0.5:
                image, mask = image.flip(-1), mask.flip(-1)
            if random.random() < 0.5:
                image, mask = image.flip(-2), mask.flip(-2)
            image = image * random.uniform(0.8, 1.2)
        return {"image": image, "mask": mask}


def double_conv(c_in, c_out):
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, 3, padding=1), nn.GroupNorm(4, c_out), nn.SiLU(inplace=True),
        nn.Conv2d(c_out, c_out, 3, padding=1), nn.GroupNorm(4, c_out), nn.SiLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, base=8):
        super().__init__()
        self.inc = double_conv(1, base)
        self.down = double_conv(base, base * 2)
        self.bottom = double_conv(base * 2, base * 4)
        self.up1 = nn.ConvTranspose2d(base * 4, base * 2, 2, stride=2)
        self.dec1 = double_conv(base * 4, base * 2)
        self.up2 = nn.ConvTranspose2d(base * 2, base, 2, stride=2)
        self.dec2 = double_conv(base * 2, base)
        self.outc = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down(F.max_pool2d(x1, 2))
        x3 = self.bottom(F.max_pool2d(x2, 2))
        y = self.dec1(torch.cat([self.up1(x3), x2], dim=1))
        y = self.dec2(torch.cat([self.up2(y), x1], dim=1))
        return self.outc(y)


def soft_dice_loss(logits, target, eps=1.0):
    p = torch.sigmoid(logits.float())
    inter = (p * target).sum(dim=(1, 2, 3))
    total = p.sum(dim=(1, 2, 3)) + target.sum(dim=(1, 2, 3))
    return (1 - (2 * inter + eps) / (total + eps)).mean()


@torch.inference_mode()
def validate(net, loader, device, amp):
    net.eval()
    intersection, union, bce_sum = 0.0, 0.0, 0.0
    for batch in loader:
        image, mask = batch["image"].to(device), batch["mask"].to(device)
        with autocast(device.type, enabled=amp):
            logits = net(image)
        bce_sum += F.binary_cross_entropy_with_logits(logits.float(), mask, reduction="sum").item()
        pred = (logits > 0).float()
        intersection += (pred * mask).sum().item()
        union += (pred.sum() + mask.sum()).item()
    n_pixels = len(loader.dataset) * 32 * 32
    return 2 * intersection / union, bce_sum / n_pixels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", "-e", type=int, default=5)
    parser.add_argument("--batch-size", "-b", dest="batch_size", type=int, default=8)
    parser.add_argument("--accum", type=int, default=3, help="batches per optimizer step")
    parser.add_argument("--learning-rate", "-l", type=float, default=2e-2, dest="lr")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args()

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    amp = args.amp and device.type == "cuda"
    run_dir = Path("runs") / datetime.now().strftime("%Y%m%d-%H%M%S")
    run_dir.mkdir(parents=True, exist_ok=True)

    train_loader = DataLoader(CellDataset(160, 1, augment=True), batch_size=args.batch_size, shuffle=True,
                              num_workers=args.workers, pin_memory=device.type == "cuda")
    val_loader = DataLoader(CellDataset(64, 2, augment=False), batch_size=args.batch_size, num_workers=args.workers)

    net = UNet().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=1e-3)
    steps_per_epoch = math.ceil(len(train_loader) / args.accum)
    scheduler = OneCycleLR(optimizer, max_lr=args.lr, epochs=args.epochs, steps_per_epoch=steps_per_epoch)
    scaler = GradScaler(device.type, enabled=amp)

    log_file = open(run_dir / "metrics.csv", "w", newline="")
    writer = csv.writer(log_file)
    writer.writerow(["epoch", "lr", "train_loss", "val_bce", "val_dice"])

    best_dice = 0.0
    for epoch in range(1, args.epochs + 1):
        net.train()
        epoch_loss = 0.0
        optimizer.zero_grad(set_to_none=True)
        for i, batch in enumerate(train_loader):
            image = batch["image"].to(device, non_blocking=True, memory_format=torch.channels_last)
            mask = batch["mask"].to(device, non_blocking=True)
            with autocast(device.type, enabled=amp):
                logits = net(image)
                loss = F.binary_cross_entropy_with_logits(logits, mask) + soft_dice_loss(logits, mask)
            scaler.scale(loss / args.accum).backward()
            if (i + 1) % args.accum == 0 or (i + 1) == len(train_loader):
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
                scheduler.step()
            epoch_loss += loss.item()
        epoch_loss /= len(train_loader)

        dice, bce = validate(net, val_loader, device, amp)
        lr = scheduler.get_last_lr()[0]
        writer.writerow([epoch, f"{lr:.6f}", f"{epoch_loss:.5f}", f"{bce:.5f}", f"{dice:.5f}"])
        log_file.flush()
        print(f"epoch {epoch}: train loss {epoch_loss:.4f}, val bce {bce:.4f}, val dice {dice:.4f}, lr {lr:.5f}")
        if dice > best_dice:
            best_dice = dice
            torch.save(net.state_dict(), run_dir / "best.pth")

    log_file.close()
    print(f"best dice: {best_dice:.4f}")
    print(f"logs in {run_dir}", file=sys.stderr)


if __name__ == "__main__":
    main()
