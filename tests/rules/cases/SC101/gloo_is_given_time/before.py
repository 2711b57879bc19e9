import torch
from torch import nn
from torch.utils.data import DataLoader


def fit():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in DataLoader(torch.ones(8, 4), batch_size=2):
        optimizer.zero_grad()
        net(x.to(device)).mean().backward()
        optimizer.step()


fit()
