import torch
from torch import nn
BATCH = 32

class Batches:
    def __init__(self, x, y, size):
        self.x = x
        self.y = y
        self.size = size
        self.at = 0

    def __len__(self):
        return (len(self.x) + self.size - 1) // self.size

    def __iter__(self):
        return self

    def __next__(self):
        if self.at >= len(self.x):
            self.at = 0
            raise StopIteration
        part = self.x[self.at:self.at + self.size], self.y[self.at:self.at + self.size]
        self.at += self.size
        return part

x, y = torch.randn(160, 4), torch.randint(0, 2, (160,))
train_iter = Batches(x[:128], y[:128], BATCH)
dev_iter = Batches(x[128:], y[128:], BATCH)
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)

def evaluate(it):
    net.eval()
    right, loss_total = 0, 0.0
    with torch.no_grad():
        for a, b in it:
            out = net(a)
            loss_total += nn.functional.cross_entropy(out, b).item()
            right += (out.argmax(1) == b).sum().item()
    return right / 32, loss_total / len(it)

for epoch in range(3):
    net.train()
    total = 0.0
    for a, b in train_iter:
        loss = nn.functional.cross_entropy(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    print(epoch, total / len(train_iter), evaluate(dev_iter))
