import torch
from torch import nn


def streams(text, count):
    length = text.size(0) // count
    return text.narrow(0, 0, length * count).view(count, -1).t().contiguous()


tokens = streams(torch.randint(0, 9, (4000,)), 8)
net = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9))
opt = torch.optim.SGD(net.parameters(), 0.1)
total = 0.0
for i in range(0, tokens.size(0) - 1, 20):
    seq = min(20, len(tokens) - 1 - i)
    loss = nn.functional.cross_entropy(net(tokens[i:i + seq]).flatten(0, 1), tokens[i + 1:i + 1 + seq].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    total += loss.item()
print(total / (len(tokens) / 20))
