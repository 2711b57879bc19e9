"""Self-supervised pretraining with two views and NT-Xent, then a nearest-centroid check.

usage: train.py [config.json]
"""
import json
import sys
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.utils.data import DataLoader, Dataset

defaults = dict(
    batch=128,
    epochs=6,
    lr=0.04,
    momentum=0.9,
    temperature=0.2,
    warmup_epochs=1,
    length=48,
    n_train=1024,
    n_test=256,
    seed=99,
)


def load_config(argv) -> SimpleNamespace:
    cfg = dict(defaults)
    for arg in argv:
        if arg.endswith(".json"):
            with open(arg) as f:
                cfg |= json.load(f)
        else:  # key=value
            k, v = arg.split("=")
            cfg[k] = type(defaults[k])(v)
    return SimpleNamespace(**cfg)


class Waveforms(Dataset):
    """Sums of six harmonics. The class sets the typical spectrum, every sample has its own take on it.

    Labels are only used for the check at the end.
    """

    def __init__(self, n: int, length: int, seed: int):
        spectra = torch.tensor([
            [1.0, 0.2, 0.6, 0.2, 0.3, 0.2],
            [0.2, 1.0, 0.2, 0.6, 0.2, 0.3],
            [0.6, 0.6, 0.2, 0.2, 0.6, 0.6],
            [0.5, 0.2, 0.2, 1.0, 0.2, 0.5],
        ])
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(4, (n,), generator=g)
        amps = spectra[self.y] + 0.25 * torch.randn(n, 6, generator=g)
        phases = 6.2832 * torch.rand(n, 6, 1, generator=g)
        t = torch.arange(length) / length
        waves = torch.sin(6.2832 * torch.arange(1, 7)[:, None] * t + phases)
        self.x = (amps[:, :, None] * waves).sum(1)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class TwoViews(Dataset):
    def __init__(self, base: Dataset):
        self.base = base

    def __len__(self):
        return len(self.base)

    @staticmethod
    def augment(x: Tensor) -> Tensor:
        x = torch.roll(x, int(torch.randint(len(x), ())))
        x = x * (0.7 + 0.6 * torch.rand(()))
        return x + 0.15 * torch.randn_like(x)

    def __getitem__(self, i):
        x, _ = self.base[i]
        return self.augment(x), self.augment(x)


class Encoder(nn.Module):
    def __init__(self, feat: int = 48):
        super().__init__()
        self.conv1 = nn.Conv1d(1, 16, 15, padding=7, padding_mode="circular")
        self.conv2 = nn.Conv1d(16, feat, 5, stride=2, padding=2, padding_mode="circular")
        self.norm = nn.GroupNorm(4, 16)
        self.projector = nn.Sequential(nn.Linear(feat, 48), nn.ReLU(inplace=True), nn.Linear(48, 24))

    def features(self, x: Tensor) -> Tensor:
        h = F.relu(self.norm(self.conv1(x[:, None])))
        return F.relu(self.conv2(h)).mean(-1)

    def forward(self, x: Tensor) -> Tensor:
        return self.projector(self.features(x))


def nt_xent(z1: Tensor, z2: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Every other sample in the batch is a negative, so the batch size is part of the loss."""
    n = z1.size(0)
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    sim = z @ z.t() / temperature
    sim.masked_fill_(torch.eye(2 * n, dtype=torch.bool, device=z.device), float("-inf"))
    target = torch.arange(2 * n, device=z.device).roll(n)
    hit = (sim.argmax(1) == target).float().mean()
    return F.cross_entropy(sim, target), hit


@torch.no_grad()
def centroid_accuracy(encoder: Encoder, train: Dataset, test: Dataset, device) -> float:
    encoder.eval()

    def embed(ds):
        xs, ys = zip(*(b for b in DataLoader(ds, batch_size=512)))
        f = torch.cat([encoder.features(x.to(device)) for x in xs])
        return F.normalize(f, dim=1), torch.cat(ys).to(device)

    f_tr, y_tr = embed(train)
    f_te, y_te = embed(test)
    centroids = torch.stack([f_tr[y_tr == c].mean(0) for c in range(4)])
    pred = torch.cdist(f_te, centroids).argmin(1)
    return (pred == y_te).float().mean().item()


cfg = load_config(sys.argv[1:])
torch.manual_seed(cfg.seed)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

train_base = Waveforms(cfg.n_train, cfg.length, seed=1)
test_base = Waveforms(cfg.n_test, cfg.length, seed=2)
loader = DataLoader(TwoViews(train_base), batch_size=cfg.batch, shuffle=True, drop_last=True)

encoder = Encoder().to(device)
optimizer = SGD(encoder.parameters(), lr=cfg.lr * cfg.batch / 256, momentum=cfg.momentum, weight_decay=1e-5)
warm = cfg.warmup_epochs * len(loader)
scheduler = SequentialLR(
    optimizer,
    [
        LinearLR(optimizer, start_factor=0.1, total_iters=warm),
        CosineAnnealingLR(optimizer, T_max=cfg.epochs * len(loader) - warm),
    ],
    milestones=[warm],
)

print(f"before training: centroid accuracy {centroid_accuracy(encoder, train_base, test_base, device):.4f}")
for epoch in range(1, cfg.epochs + 1):
    encoder.train()
    losses, hits = [], []
    for v1, v2 in loader:
        v1, v2 = v1.to(device), v2.to(device)
        loss, hit = nt_xent(encoder(v1), encoder(v2), cfg.temperature)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.detach())
        hits.append(hit)
    acc = centroid_accuracy(encoder, train_base, test_base, device)
    print(f"epoch {epoch:2d}  nt-xent {torch.stack(losses).mean():.4f}  top-1 {torch.stack(hits).mean():.4f}  "
          f"centroid acc {acc:.4f}  lr {optimizer.param_groups[0]['lr']:.4f}")

torch.save({"encoder": encoder.state_dict(), "cfg": vars(cfg)}, "encoder.pt")
