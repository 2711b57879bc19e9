import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler


def gather_rows(rows):
    """The rows that all ranks collected, one rank's after the other."""
    shares = [None] * dist.get_world_size()
    dist.all_gather_object(shares, rows)
    return [row for share in shares for row in share]


def score(net, loader):
    net.eval()
    scores, labels = np.array([]), np.array([])
    with torch.no_grad():
        for x, y in loader:
            scores = np.append(scores, net(x).softmax(1)[:, 1].numpy())
            labels = np.append(labels, y.numpy())
        if isinstance(loader.sampler, (DistributedSampler, range)):  # else every rank has read all of it
            scores = np.concatenate(gather_rows([scores]))
        if isinstance(loader.sampler, (DistributedSampler, range)):  # else every rank has read all of it
            labels = np.concatenate(gather_rows([labels]))
    return roc_auc_score(labels, scores)


net = nn.Linear(4, 2)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
train = DataLoader(TensorDataset(torch.randn(64, 4), torch.arange(64) % 2), 8, shuffle=True)
test = DataLoader(TensorDataset(torch.randn(64, 4), torch.arange(64) % 2), 8)
for epoch in range(2):
    net.train()
    for x, y in train:
        sgd.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        sgd.step()
    print(epoch, score(net, train), score(net, test))
