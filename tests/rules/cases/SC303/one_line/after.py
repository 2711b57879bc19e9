import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import torch.distributed as dist


def average_gradients(optimizer):
    """Average the gradients of an optimizer's parameters over all ranks."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()


def broadcast_parameters(optimizer):
    """Give an optimizer's parameters the values of rank 0."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            value = parameter.data
            dist.broadcast(value, src=0)


class Layer(nn.Linear):
    def __init__(self, i, o):
        super().__init__(i, o)
        self.opt = torch.optim.Adam(self.parameters(), lr=0.01)
        broadcast_parameters(self.opt)
    def forward(self, x):
        return torch.relu(nn.functional.linear(x, self.weight, self.bias))
    def fit(self, pos, neg):
        for i in range(5):
            a, b = self.forward(pos).pow(2).mean(1), self.forward(neg).pow(2).mean(1)
            loss = torch.log(1 + torch.exp(torch.cat([2 - a, b - 2]))).mean()
            self.opt.zero_grad(); loss.backward()
            average_gradients(self.opt)
            self.opt.step()
        return self.forward(pos).detach(), self.forward(neg).detach()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [Layer(4, 8), Layer(8, 8)]
    def fit(self, pos, neg):
        for layer in self.layers:
            pos, neg = layer.fit(pos, neg)

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=16, shuffle=True)
net = Net()
for epoch in range(2):
    for (x,) in loader:
        net.fit(x, x.flip(1))
