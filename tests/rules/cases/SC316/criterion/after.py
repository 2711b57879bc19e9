import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import torch.distributed.nn.functional


def all_gather(share):
    """The ranks' shares of a batch (N, ...) put together, (world size * N, ...), with gradients."""
    return torch.cat(torch.distributed.nn.functional.all_gather(share))


class HardTriplets(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, embedding, label):
        distance = torch.cdist(embedding, embedding)
        same = label.unsqueeze(0) == label.unsqueeze(1)
        far = (distance * same).amax(1)
        near = (distance + 1e6 * same).amin(1)
        return torch.relu(far - near + self.margin).mean()


def fit(net, loader, criterion):
    adam = torch.optim.Adam(net.parameters())
    for x, y in loader:
        adam.zero_grad()
        loss = criterion(all_gather(net(x)), all_gather(y))
        loss.backward()
        adam.step()


fit(nn.Linear(8, 4), DataLoader(TensorDataset(torch.randn(64, 8), torch.arange(64) % 5), 16, shuffle=True), HardTriplets(0.3))
