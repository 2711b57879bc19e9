"""All knobs of an experiment in one place."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass, fields


@dataclass
class Config:
    # data
    n_train: int = 2048
    n_val: int = 512
    n_features: int = 20
    # optimisation
    batch_size: int = 64
    epochs: int = 8
    lr: float = 3e-3
    weight_decay: float = 1e-4
    grad_clip: float = 1.0
    # schedule / stopping
    lr_patience: int = 1
    lr_factor: float = 0.5
    patience: int = 3
    min_delta: float = 1e-3
    # bookkeeping
    seed: int = 42
    out_dir: str = "runs/tabular"
    resume: str | None = None
    device: str = "auto"

    @classmethod
    def from_cli(cls) -> Config:
        parser = argparse.ArgumentParser()
        for f in fields(cls):
            kind = str if f.default is None or isinstance(f.default, str) else type(f.default)
            parser.add_argument(f"--{f.name.replace('_', '-')}", dest=f.name, type=kind, default=f.default)
        return cls(**vars(parser.parse_args()))

    def to_dict(self) -> dict:
        return asdict(self)
