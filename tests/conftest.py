"""Fixtures that several test folders share."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

TRAINING = dedent(
    '''\
    """Fits a line."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    x = torch.linspace(0, 1, 64).unsqueeze(1)
    data = TensorDataset(x, 3 * x)
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for a, b in loader:
            loss = nn.functional.mse_loss(model(a), b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch)  # how far
    '''
)
"""A script that converts without a diagnostic."""


@pytest.fixture
def training() -> str:
    """The text of a small training script."""
    return TRAINING


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., str]:
    """Runs git in ``tmp_path``."""

    def run(*args: str) -> str:
        who = ["-c", "user.name=tester", "-c", "user.email=tester@example.org", "-c", "core.autocrlf=false"]
        done = subprocess.run(["git", *who, *args], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
