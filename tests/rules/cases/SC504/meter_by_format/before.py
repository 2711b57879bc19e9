import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class AverageMeter:
    def __init__(self):
        self.reset()
    def reset(self):
        self.val = self.avg = self.sum = self.count = 0
    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,))), batch_size=8, shuffle=True)
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)

def train(epoch):
    losses = AverageMeter()
    for i, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.update(loss.item(), x.size(0))
        if i % 2 == 0:
            print("Epoch [{0}][{1}/{2}] Loss {loss.val:.4f} ({loss.avg:.4f})".format(epoch, i, len(loader), loss=losses))

for epoch in range(2):
    train(epoch)
