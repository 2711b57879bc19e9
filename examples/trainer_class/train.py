"""Tabular binary classifier. Entry point: wires config, data, model and Trainer together.

    python train.py --batch-size 64 --epochs 8
    python train.py --resume runs/tabular/last.pt --epochs 20
"""

from __future__ import annotations

import json
import logging
import random
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from config import Config
from trainer import Trainer


def set_seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


def setup_logging(out_dir: Path) -> None:
    out_dir.mkdir(parents=True, exist_ok=True)
    fmt = logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s", "%H:%M:%S")
    to_file = logging.FileHandler(out_dir / "train.log", mode="a")
    to_file.setFormatter(fmt)
    to_screen = logging.StreamHandler()
    to_screen.setLevel(logging.INFO)
    to_screen.setFormatter(logging.Formatter("%(message)s"))
    logging.basicConfig(level=logging.DEBUG, handlers=[to_file, to_screen])


def make_split(n: int, n_features: int, rng: np.random.Generator) -> TensorDataset:
    x = rng.normal(size=(n, n_features)).astype(np.float32)
    score = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + 0.5 * x[:, 3] - 0.7 * np.abs(x[:, 4])
    y = (score + rng.normal(scale=0.3, size=n) > 0).astype(np.float32)
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


class MLP(nn.Module):
    def __init__(self, n_features: int, hidden: int = 64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(n_features, hidden),
            nn.LayerNorm(hidden),
            nn.GELU(),
            nn.Linear(hidden, hidden),
            nn.LayerNorm(hidden),
            nn.GELU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


def build_loaders(cfg: Config) -> tuple[DataLoader, DataLoader]:
    rng = np.random.default_rng(cfg.seed)
    train_ds = make_split(cfg.n_train, cfg.n_features, rng)
    val_ds = make_split(cfg.n_val, cfg.n_features, rng)
    train_loader = DataLoader(train_ds, batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_ds, batch_size=cfg.batch_size * 2, shuffle=False)
    return train_loader, val_loader


def main() -> None:
    cfg = Config.from_cli()
    out_dir = Path(cfg.out_dir)
    setup_logging(out_dir)
    set_seed(cfg.seed)
    (out_dir / "config.json").write_text(json.dumps(cfg.to_dict(), indent=2))

    train_loader, val_loader = build_loaders(cfg)
    model = MLP(cfg.n_features)
    logging.getLogger(__name__).info("model has %d parameters", sum(p.numel() for p in model.parameters()))

    trainer = Trainer(cfg, model, train_loader, val_loader)
    best = trainer.fit()
    print(f"best validation loss: {best:.4f}")


if __name__ == "__main__":
    main()
