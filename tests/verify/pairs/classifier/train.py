import logging

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split

logging.basicConfig(filename="train.log", level=logging.INFO, format="%(message)s")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.body(x))


def evaluate(model, loader, device):
    model.eval()
    loss, correct, count = 0.0, 0, 0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            out = model(x)
            loss += nn.functional.cross_entropy(out, y, reduction="sum").item()
            correct += (out.argmax(1) == y).sum().item()
            count += len(y)
    return loss / count, correct / count


torch.manual_seed(0)
device = torch.device("cuda")
x = torch.randn(121, 6)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
train_set, val_set = random_split(TensorDataset(x, y), [90, 31])
loader = DataLoader(train_set, batch_size=16, shuffle=True, pin_memory=True)
val_loader = DataLoader(val_set, batch_size=16)
model = Net().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.3, patience=0, threshold=0.3)
best, bad = float("inf"), 0
for epoch in range(6):
    model.train()
    total = 0.0
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    val_loss, accuracy = evaluate(model, val_loader, device)
    scheduler.step(val_loss)
    print(f"epoch {epoch}: loss {total / len(loader):.4f} val {val_loss:.4f} acc {accuracy:.3f}")
    logging.info("epoch %d val %.4f", epoch, val_loss)
    if val_loss < best - 0.05:
        best, bad = val_loss, 0
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "best.pt")
    else:
        bad += 1
        if bad == 2:
            print("stopping early")
            break
