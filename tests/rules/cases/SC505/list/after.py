import torch
from sklearn.metrics import f1_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import torch.distributed as dist


def gather_rows(rows):
    """The rows that all ranks collected, one rank's after the other."""
    shares = [None] * dist.get_world_size()
    dist.all_gather_object(shares, rows)
    return [row for share in shares for row in share]


net = nn.Linear(4, 2)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.arange(64) % 2), 8, shuffle=True)
for epoch in range(2):
    guesses, labels = [], []
    for x, y in loader:
        out = net(x)
        sgd.zero_grad()
        nn.functional.cross_entropy(out, y).backward()
        sgd.step()
        guesses.extend(out.argmax(1).tolist())
        labels.extend(y.tolist())
    guesses = gather_rows(guesses)
    labels = gather_rows(labels)
    print(epoch, f1_score(labels, guesses))
