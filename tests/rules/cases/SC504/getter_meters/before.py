import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Average:
    def __init__(self):
        self.total, self.count = 0.0, 0
    def add(self, value, n):
        self.total += value * n
        self.count += n
    @property
    def mean(self):
        return self.total / self.count
    def result(self):
        if self.count == 0:
            return 0.0
        return self.total / self.count

loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,))), batch_size=8, shuffle=True)
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    losses, hits = Average(), Average()
    for x, y in loader:
        out = model(x)
        loss = nn.functional.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.add(loss.item(), len(y))
        hits.add((out.argmax(1) == y).float().mean().item(), len(y))
    print(f"epoch {epoch} loss {losses.mean:.4f} accuracy {hits.result():.4f}")
