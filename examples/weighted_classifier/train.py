import copy
import json
import os
import sys
from collections import Counter

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler, random_split

CFG = {
    'seed': 7,
    'n_samples': 1536,
    'val_samples': 512,
    'n_classes': 4,
    'class_probs': [0.70, 0.18, 0.08, 0.04],
    'batch_size': 64,
    'epochs': 12,
    'lr': 4e-3,
    'dropout': 0.1,
    'ema_decay': 0.95,
    'patience': 4,
    'out': 'weights/best_ema.pt',
}
# python train.py my_config.json   (only the keys that differ)
if len(sys.argv) > 1:
    with open(sys.argv[1]) as fh:
        CFG.update(json.load(fh))

torch.manual_seed(CFG['seed'])
np.random.seed(CFG['seed'])
device = 'cuda:0' if torch.cuda.is_available() else 'cpu'


def make_dataset():
    """Imbalanced blobs bent into bananas."""
    y = np.random.choice(CFG['n_classes'], size=CFG['n_samples'], p=CFG['class_probs'])
    angle = y * (2 * np.pi / CFG['n_classes']) + np.random.normal(0, 0.45, len(y))
    radius = 2 + np.random.normal(0, 0.4, len(y))
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
    x = np.hstack([x, np.random.normal(size=(len(y), 6))])  # 6 useless features
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))


full = make_dataset()
train_ds, val_ds = random_split(full, [len(full) - CFG['val_samples'], CFG['val_samples']])

# oversample the rare classes
train_y = full.tensors[1][train_ds.indices].tolist()
counts = Counter(train_y)
print('class counts:', dict(sorted(counts.items())))
sample_w = [1.0 / counts[c] ** 0.5 for c in train_y]
sampler = WeightedRandomSampler(sample_w, num_samples=len(train_ds), replacement=True)
train_dl = DataLoader(train_ds, batch_size=CFG['batch_size'], sampler=sampler)
val_dl = DataLoader(val_ds, batch_size=256)

model = nn.Sequential(
    nn.Linear(8, 48), nn.SiLU(), nn.Dropout(CFG['dropout']),
    nn.Linear(48, 48), nn.SiLU(), nn.Dropout(CFG['dropout']),
    nn.Linear(48, CFG['n_classes']),
).to(device)

ema = copy.deepcopy(model)
for p in ema.parameters():
    p.requires_grad_(False)


def update_ema():
    with torch.no_grad():
        for pe, p in zip(ema.parameters(), model.parameters()):
            pe.mul_(CFG['ema_decay']).add_(p, alpha=1 - CFG['ema_decay'])


# the sampler does half of the balancing (sqrt), the loss does the other half
class_w = torch.tensor([len(train_y) / (CFG['n_classes'] * counts[c]) for c in range(CFG['n_classes'])])
criterion = nn.CrossEntropyLoss(weight=class_w.sqrt().to(device))
opt = torch.optim.Adam(model.parameters(), lr=CFG['lr'])
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=CFG['epochs'])


def confusion_matrix(y_true, y_pred, k):
    cm = np.zeros((k, k), dtype=int)
    for t, p in zip(y_true, y_pred):
        cm[t, p] += 1
    return cm


def macro_f1(cm):
    scores = []
    for c in range(len(cm)):
        tp = cm[c, c]
        denom = cm[c].sum() + cm[:, c].sum()
        scores.append(2 * tp / denom if denom else 0.0)
    return float(np.mean(scores))


def run_eval(net):
    net.eval()
    y_true, y_pred, losses = [], [], []
    with torch.no_grad():
        for xb, yb in val_dl:
            out = net(xb.to(device))
            losses.append(criterion(out, yb.to(device)).item())
            y_true.extend(yb.tolist())
            y_pred.extend(out.argmax(-1).cpu().tolist())
    cm = confusion_matrix(y_true, y_pred, CFG['n_classes'])
    return np.mean(losses), macro_f1(cm), cm


best_f1, wait, best_cm = -1.0, 0, None
for epoch in range(CFG['epochs']):
    model.train()
    seen = Counter()
    tr_loss = 0.
    for xb, yb in train_dl:
        seen.update(yb.tolist())
        xb, yb = xb.to(device), yb.to(device)
        opt.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        opt.step()
        update_ema()
        tr_loss += loss.item() * len(xb)
    sched.step()

    raw_loss, raw_f1, _ = run_eval(model)
    ema_loss, ema_f1, cm = run_eval(ema)
    print(f"[{epoch:02d}] train {tr_loss / len(train_ds):.4f} | val {raw_loss:.4f} f1 {raw_f1:.4f} "
          f"| ema val {ema_loss:.4f} f1 {ema_f1:.4f} | rarest class seen {seen[CFG['n_classes'] - 1]}x")

    if ema_f1 > best_f1:
        best_f1, best_cm, wait = ema_f1, cm, 0
        os.makedirs(os.path.dirname(CFG['out']), exist_ok=True)
        torch.save(ema.state_dict(), CFG['out'])
    else:
        wait += 1
        if wait >= CFG['patience']:
            print(f'early stop at epoch {epoch}')
            break

print('best macro f1: %.4f' % best_f1)
print('confusion matrix (rows = truth):')
print(best_cm)
json.dump({'best_f1': best_f1, 'config': CFG}, open('result.json', 'w'), indent=1)
