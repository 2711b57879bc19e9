# Siamese network for "same shape or not?" on little rendered glyphs.
# Pairs are drawn once; the sampler keeps every batch half positive / half negative.
import argparse
import math
from os import path

import numpy as np
import torch
import torch.nn as nn
import torch.utils.data as D
from torch.nn.functional import pairwise_distance, relu


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bs", type=int, default=64)
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--margin", type=float, default=1.0)
    ap.add_argument("--seed", type=int, default=17)
    ap.add_argument("--save", default="siamese.pth")
    return ap.parse_args()


def render_glyph(kind, rs, size=16):
    """A closed curve r(phi) = 1 + a*cos(k*phi), rotated and jittered."""
    k, a = 2 + kind % 4, 0.25 + 0.2 * (kind // 4)
    yy, xx = np.mgrid[-1:1:size * 1j, -1:1:size * 1j]
    cx, cy = rs.uniform(-0.12, 0.12, 2)
    phi = np.arctan2(yy - cy, xx - cx) + rs.uniform(-0.35, 0.35)
    rad = np.hypot(yy - cy, xx - cx)
    img = (rad < 0.6 * (1 + a * np.cos(k * phi))).astype(np.float32)
    return img + rs.normal(0, 0.25, img.shape).astype(np.float32)


class GlyphPairs(D.Dataset):
    def __init__(self, n_pairs, seed, n_kinds=8):
        rs = np.random.RandomState(seed)
        self.a, self.b, self.same = [], [], []
        for _ in range(n_pairs):
            same = int(rs.rand() < 0.35)  # negatives are more common, like in the real thing
            k1 = rs.randint(n_kinds)
            k2 = k1 if same else (k1 + rs.randint(1, n_kinds)) % n_kinds
            self.a.append(render_glyph(k1, rs))
            self.b.append(render_glyph(k2, rs))
            self.same.append(same)
        self.same = np.array(self.same, dtype=np.float32)

    def __getitem__(self, i):
        return torch.from_numpy(self.a[i])[None], torch.from_numpy(self.b[i])[None], self.same[i]

    def __len__(self):
        return len(self.same)


class BalancedPairSampler(D.Sampler):
    """Yields indices so that each consecutive `batch_size` of them has as many positives as negatives.

    Positives are repeated as needed.
    """

    def __init__(self, labels, batch_size, seed=0):
        assert batch_size % 2 == 0, "need an even batch size"
        self.pos = np.flatnonzero(labels == 1)
        self.neg = np.flatnonzero(labels == 0)
        self.half = batch_size // 2
        self.n_batches = len(labels) // batch_size
        self.rs = np.random.RandomState(seed)

    def __iter__(self):
        need = self.n_batches * self.half
        pos = np.resize(self.rs.permutation(self.pos), need)
        neg = np.resize(self.rs.permutation(self.neg), need)
        for b in range(self.n_batches):
            sl = slice(b * self.half, (b + 1) * self.half)
            batch = np.concatenate([pos[sl], neg[sl]])
            self.rs.shuffle(batch)
            yield from batch.tolist()

    def __len__(self):
        return self.n_batches * self.half * 2


class Embedder(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.c1 = nn.Conv2d(1, 8, 3, padding=1, stride=2)
        self.c2 = nn.Conv2d(8, 16, 3, padding=1, stride=2)
        self.fc = nn.Linear(16 * 4 * 4, dim)

    def forward(self, x):
        x = relu(self.c1(x))
        x = relu(self.c2(x))
        return self.fc(x.flatten(1))


class ContrastiveLoss(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, e1, e2, same):
        dist = pairwise_distance(e1, e2)
        return (same * dist.pow(2) + (1 - same) * relu(self.margin - dist).pow(2)).mean()


def best_threshold(dist, same):
    """Sweep the cut over all distances, return (accuracy, threshold)."""
    order = np.argsort(dist, kind="stable")
    d, s = dist[order], same[order]
    # everything up to and including position i is called "same"
    tp = np.cumsum(s)
    tn = (1 - s).sum() - np.cumsum(1 - s)
    acc = (tp + tn) / len(s)
    i = int(acc.argmax())
    return float(acc[i]), float(d[i])


def main():
    opt = parse()
    torch.manual_seed(opt.seed)
    np.random.seed(opt.seed)
    cuda = torch.cuda.is_available()

    train_set = GlyphPairs(768, seed=opt.seed)
    test_set = GlyphPairs(256, seed=opt.seed + 1)
    sampler = BalancedPairSampler(train_set.same, opt.bs, seed=opt.seed)
    train_loader = D.DataLoader(train_set, batch_size=opt.bs, sampler=sampler, drop_last=True)
    test_loader = D.DataLoader(test_set, batch_size=128)

    # both branches share the weights, so it's the same module called twice
    net = Embedder()
    loss_fn = ContrastiveLoss(opt.margin)
    if cuda:
        net = net.cuda()
    optim = torch.optim.RMSprop(net.parameters(), lr=opt.lr)

    best = 0.0
    for ep in range(opt.epochs):
        net.train()
        losses = []
        for x1, x2, same in train_loader:
            if cuda:
                x1, x2, same = x1.cuda(), x2.cuda(), same.cuda()
            loss = loss_fn(net(x1), net(x2), same)
            optim.zero_grad()
            loss.backward()
            optim.step()
            losses.append(loss.item())

        net.eval()
        dists, labels = [], []
        with torch.no_grad():
            for x1, x2, same in test_loader:
                if cuda:
                    x1, x2 = x1.cuda(), x2.cuda()
                dists.append(pairwise_distance(net(x1), net(x2)).cpu().numpy())
                labels.append(same.numpy())
        dists, labels = np.concatenate(dists), np.concatenate(labels)
        acc, thr = best_threshold(dists, labels)
        gap = dists[labels == 0].mean() - dists[labels == 1].mean()
        print("ep %2d/%d  loss %.4f  acc@best %.4f  thr %.3f  gap %.3f" % (
            ep + 1, opt.epochs, np.mean(losses), acc, thr, gap))
        assert not math.isnan(losses[-1])

        if acc > best:
            best = acc
            torch.save({"net": net.state_dict(), "threshold": thr, "acc": acc}, opt.save)
            print("   -> %s" % path.basename(opt.save))
    print("best accuracy", round(best, 4))


if __name__ == "__main__":
    main()
