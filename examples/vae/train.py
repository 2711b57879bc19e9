#!/usr/bin/env python3
"""VAE on binary "tetromino" pictures. The model builds its own loss, see VAE.loss()."""
import argparse
import os

import torch as th
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Tetrominos(Dataset):
  """One falling-block piece at a random place of a 14x14 board."""

  PIECES = [
      [(0, 0), (0, 1), (0, 2), (0, 3)],
      [(0, 0), (0, 1), (1, 0), (1, 1)],
      [(0, 0), (0, 1), (0, 2), (1, 1)],
      [(0, 0), (1, 0), (2, 0), (2, 1)],
      [(0, 1), (0, 2), (1, 0), (1, 1)],
  ]

  def __init__(self, size, seed):
    g = th.Generator().manual_seed(seed)
    kinds = th.randint(len(self.PIECES), (size,), generator=g)
    tops = th.randint(0, 4, (size, 2), generator=g)
    self.images = th.zeros(size, 1, 14, 14)
    for i in range(size):
      for r, c in self.PIECES[kinds[i]]:
        y, x = 2 * (r + int(tops[i, 0])), 2 * (c + int(tops[i, 1]))
        self.images[i, 0, y:y + 2, x:x + 2] = 1.

  def __len__(self):
    return len(self.images)

  def __getitem__(self, idx):
    return self.images[idx]


class VAE(nn.Module):

  def __init__(self, latent=8, hidden=128):
    super().__init__()
    self.latent = latent
    self.enc = nn.Sequential(nn.Flatten(), nn.Linear(14 * 14, hidden), nn.ReLU())
    self.mu = nn.Linear(hidden, latent)
    self.logvar = nn.Linear(hidden, latent)
    self.dec = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, 14 * 14))

  def encode(self, x):
    h = self.enc(x)
    return self.mu(h), self.logvar(h)

  def reparameterize(self, mu, logvar):
    std = th.exp(0.5 * logvar)
    return mu + th.randn_like(std) * std

  def decode(self, z):
    return self.dec(z).view(-1, 1, 14, 14)

  def forward(self, x):
    mu, logvar = self.encode(x)
    return self.decode(self.reparameterize(mu, logvar)), mu, logvar

  def loss(self, x, beta=1.0):
    """Negative ELBO, summed over pixels and over the batch (not averaged!)."""
    recon, mu, logvar = self.forward(x)
    bce = F.binary_cross_entropy_with_logits(recon, x, reduction='sum')
    # 0.5 * sum(1 + log(sigma^2) - mu^2 - sigma^2)
    kld = -0.5 * th.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + beta * kld, bce, kld

  @th.no_grad()
  def sample(self, n, device):
    return th.sigmoid(self.decode(th.randn(n, self.latent, device=device)))


def get_args():
  p = argparse.ArgumentParser(description=__doc__)
  p.add_argument('-b', '--batch-size', type=int, default=64)
  p.add_argument('-e', '--epochs', type=int, default=6)
  p.add_argument('--lr', type=float, default=2e-3)
  p.add_argument('--beta', type=float, default=1.0)
  p.add_argument('--seed', type=int, default=3)
  p.add_argument('--results', default='results')
  return p.parse_args()


args = get_args()
th.manual_seed(args.seed)
device = th.device('cuda') if th.cuda.is_available() else th.device('cpu')
os.makedirs(args.results, exist_ok=True)

train_set = Tetrominos(1536, seed=0)
test_set = Tetrominos(512, seed=1)
train_loader = DataLoader(train_set, args.batch_size, shuffle=True)
test_loader = DataLoader(test_set, args.batch_size)

model = VAE().to(device)
optimizer = optim.Adam(model.parameters(), lr=args.lr)


def train(epoch):
  model.train()
  train_loss = 0
  for batch_idx, x in enumerate(train_loader):
    x = x.to(device)
    optimizer.zero_grad()
    loss, bce, kld = model.loss(x, args.beta)
    loss.backward()
    train_loss += loss.item()
    optimizer.step()
    if batch_idx % 12 == 0:
      print(f'  epoch {epoch} [{batch_idx * len(x):5d}/{len(train_set)}] '
            f'loss/img {loss.item() / len(x):.3f} (bce {bce.item() / len(x):.3f}, kld {kld.item() / len(x):.3f})')
  print(f'====> Epoch: {epoch} Average loss: {train_loss / len(train_loader.dataset):.4f}')


def test(epoch):
  model.eval()
  test_loss = 0
  with th.no_grad():
    for x in test_loader:
      x = x.to(device)
      test_loss += model.loss(x, args.beta)[0].item()
  test_loss /= len(test_loader.dataset)
  print(f'====> Test set loss: {test_loss:.4f}')
  return test_loss


if __name__ == '__main__':
  for epoch in range(1, args.epochs + 1):
    train(epoch)
    test(epoch)
    th.save(model.sample(16, device).cpu(), os.path.join(args.results, f'sample_{epoch}.pt'))
  th.save({'state_dict': model.state_dict(), 'args': vars(args)}, os.path.join(args.results, 'vae.pt'))
