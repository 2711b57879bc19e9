import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

net = nn.Linear(8, 4)
criterion = nn.CosineEmbeddingLoss()
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for left, right, same in DataLoader(TensorDataset(torch.randn(64, 8), torch.randn(64, 8), torch.ones(64)), 16, shuffle=True):
    loss = criterion(net(left), net(right), same)
    weight = net.weight @ net.weight.T
    loss = loss + 0.1 * (weight - torch.eye(4)).pow(2).mean()
    sgd.zero_grad()
    loss.backward()
    sgd.step()
