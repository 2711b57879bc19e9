from __future__ import annotations

import logging
import time
from pathlib import Path

import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader

from config import Config

log = logging.getLogger("trainer")


class Trainer:
    """Owns the loop: fit / validate / checkpoint / early stop."""

    def __init__(self, cfg: Config, model: nn.Module, train_loader: DataLoader, val_loader: DataLoader):
        self.cfg = cfg
        self.device = self._pick_device(cfg.device)
        self.model = model.to(self.device)
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.criterion = nn.BCEWithLogitsLoss()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
        self.scheduler = ReduceLROnPlateau(
            self.optimizer, mode="min", factor=cfg.lr_factor, patience=cfg.lr_patience
        )
        self.out_dir = Path(cfg.out_dir)
        self.start_epoch = 0
        self.best_val = float("inf")
        self.bad_epochs = 0
        self.global_step = 0

        if cfg.resume:
            self.load_checkpoint(cfg.resume)

    @staticmethod
    def _pick_device(name: str) -> torch.device:
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        return torch.device(name)

    # ------------------------------------------------------------------ loop

    def fit(self) -> float:
        for epoch in range(self.start_epoch, self.cfg.epochs):
            tic = time.perf_counter()
            train_loss = self._train_epoch()
            val_loss, val_acc = self.validate()
            self.scheduler.step(val_loss)
            lr = self.optimizer.param_groups[0]["lr"]
            log.info(
                "epoch %02d | step %4d | train %.4f | val %.4f | acc %.4f | lr %.2e",
                epoch, self.global_step, train_loss, val_loss, val_acc, lr,
            )
            log.debug("epoch took %.2fs", time.perf_counter() - tic)

            improved = val_loss < self.best_val - self.cfg.min_delta
            if improved:
                self.best_val = val_loss
                self.bad_epochs = 0
                self.save_checkpoint("best.pt", epoch)
            else:
                self.bad_epochs += 1
            self.save_checkpoint("last.pt", epoch)

            if self.bad_epochs >= self.cfg.patience:
                log.info("no improvement for %d epochs, stopping early", self.bad_epochs)
                break
        return self.best_val

    def _train_epoch(self) -> float:
        self.model.train()
        total, seen = 0.0, 0
        for x, y in self.train_loader:
            x, y = x.to(self.device), y.to(self.device)
            self.optimizer.zero_grad(set_to_none=True)
            logits = self.model(x).squeeze(-1)
            loss = self.criterion(logits, y)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.grad_clip)
            self.optimizer.step()
            self.global_step += 1
            total += loss.item() * x.size(0)
            seen += x.size(0)
        return total / seen

    @torch.no_grad()
    def validate(self) -> tuple[float, float]:
        self.model.eval()
        total, correct, seen = 0.0, 0, 0
        for x, y in self.val_loader:
            x, y = x.to(self.device), y.to(self.device)
            logits = self.model(x).squeeze(-1)
            total += self.criterion(logits, y).item() * x.size(0)
            correct += ((logits > 0) == (y > 0.5)).sum().item()
            seen += x.size(0)
        return total / seen, correct / seen

    # ----------------------------------------------------------- checkpoints

    def save_checkpoint(self, name: str, epoch: int) -> None:
        self.out_dir.mkdir(parents=True, exist_ok=True)
        torch.save(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scheduler": self.scheduler.state_dict(),
                "epoch": epoch,
                "global_step": self.global_step,
                "best_val": self.best_val,
                "bad_epochs": self.bad_epochs,
                "config": self.cfg.to_dict(),
            },
            self.out_dir / name,
        )

    def load_checkpoint(self, path: str) -> None:
        ckpt = torch.load(path, map_location=self.device, weights_only=True)
        self.model.load_state_dict(ckpt["model"])
        self.optimizer.load_state_dict(ckpt["optimizer"])
        self.scheduler.load_state_dict(ckpt["scheduler"])
        self.start_epoch = ckpt["epoch"] + 1
        self.global_step = ckpt["global_step"]
        self.best_val = ckpt["best_val"]
        self.bad_epochs = ckpt["bad_epochs"]
        log.info("resumed from %s (epoch %d, best val %.4f)", path, ckpt["epoch"], self.best_val)
