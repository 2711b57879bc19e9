"""Fine-tune a pretrained backbone for texture recognition with a metric-learning head.

Backbone frozen for the first epochs, then trained with a 10x smaller learning rate.
"""
import argparse
import math

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

from backbone import pretrained_backbone
from losses import ProxyLoss

NUM_CLASSES = 6
EMB_DIM = 32


def textures(n, seed):
    """16x16 gratings; the class is (orientation, coarse or fine)."""
    gen = torch.Generator().manual_seed(seed)
    y = torch.randint(NUM_CLASSES, (n,), generator=gen)
    axis = torch.linspace(-1, 1, 16)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    theta = (y % 3) * math.pi / 3 + 0.25 * torch.randn(n, generator=gen)
    freq = 4.0 + 4.0 * (y // 3) + torch.randn(n, generator=gen) * 0.6
    phase = torch.rand(n, generator=gen) * 2 * math.pi
    u = theta.cos()[:, None, None] * xx + theta.sin()[:, None, None] * yy
    x = torch.sin(freq[:, None, None] * u + phase[:, None, None])
    x = x + 0.7 * torch.randn(n, 16, 16, generator=gen)
    return TensorDataset(x.unsqueeze(1), y)


class Embedder(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Sequential(nn.Linear(backbone.out_dim, 64), nn.ReLU(), nn.Linear(64, EMB_DIM))

    def forward(self, x):
        return self.head(self.backbone(x))


def set_trainable(module, flag):
    for p in module.parameters():
        p.requires_grad = flag


def n_trainable(*modules):
    return sum(p.numel() for m in modules for p in m.parameters() if p.requires_grad)


@torch.no_grad()
def validate(model, criterion, loader, device):
    model.eval()
    embs, labels, loss_sum = [], [], 0.0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        e = model(x)
        loss_sum += criterion(e, y).item() * len(y)
        embs.append(nn.functional.normalize(e))
        labels.append(y)
    embs, labels = torch.cat(embs), torch.cat(labels)
    acc = (criterion.logits(embs).argmax(1) == labels).float().mean().item()
    # recall@1: is the nearest other sample of the same class?
    sim = embs @ embs.t()
    sim.fill_diagonal_(-2)
    recall = (labels[sim.argmax(1)] == labels).float().mean().item()
    return loss_sum / len(labels), acc, recall


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", default=32, type=int)
    parser.add_argument("--epochs", default=6, type=int)
    parser.add_argument("--unfreeze-at", default=3, type=int)
    parser.add_argument("--lr", default=4e-3, type=float)
    parser.add_argument("--backbone-lr", default=None, type=float, help="default: lr / 10")
    parser.add_argument("--output", default="finetuned.pt")
    args = parser.parse_args()

    torch.manual_seed(2021)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    trainloader = DataLoader(textures(1024, 0), batch_size=args.batch_size, shuffle=True)
    valloader = DataLoader(textures(512, 1), batch_size=128)

    model = Embedder(pretrained_backbone()).to(device)
    criterion = ProxyLoss(NUM_CLASSES, EMB_DIM).to(device)
    set_trainable(model.backbone, False)

    optimizer = optim.AdamW(
        [
            {"params": model.backbone.parameters(), "lr": args.backbone_lr or args.lr / 10},
            {"params": model.head.parameters()},
            {"params": criterion.parameters(), "lr": args.lr * 2, "weight_decay": 0.0},
        ],
        lr=args.lr,
        weight_decay=1e-2,
    )
    scheduler = optim.lr_scheduler.MultiStepLR(optimizer, milestones=[args.epochs - 1], gamma=0.2)

    best = 0.0
    for epoch in range(args.epochs):
        if epoch == args.unfreeze_at:
            print("unfreezing the backbone")
            set_trainable(model.backbone, True)
        model.train()
        if epoch < args.unfreeze_at:
            model.backbone.eval()  # frozen means frozen

        total = 0.0
        for x, y in trainloader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        scheduler.step()

        val_loss, acc, recall = validate(model, criterion, valloader, device)
        print(f"epoch {epoch}: {n_trainable(model, criterion):6d} trainable | train {total / len(trainloader):.4f} "
              f"| val {val_loss:.4f} | acc {acc:.4f} | recall@1 {recall:.4f} | scale {criterion.log_scale.exp().item():.2f}")
        if recall > best:
            best = recall
            torch.save({"model": model.state_dict(), "criterion": criterion.state_dict(), "epoch": epoch}, args.output)

    ckpt = torch.load(args.output, map_location=device)
    model.load_state_dict(ckpt["model"])
    criterion.load_state_dict(ckpt["criterion"])
    print("best epoch %d, recall@1 %.4f" % (ckpt["epoch"], validate(model, criterion, valloader, device)[2]))


if __name__ == "__main__":
    main()
