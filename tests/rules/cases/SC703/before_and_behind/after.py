import copy

import torch
from torch import nn
from torch.distributed.tensor import DTensor, distribute_tensor


def divide(state, like):
    """Each rank's part of the whole tensors in ``state``, divided as those in ``like`` are."""
    parts = dict(state)
    for key, tensor in like.items():
        if key in parts and isinstance(tensor, DTensor) and not isinstance(parts[key], DTensor):
            whole = parts[key].to(tensor.device, tensor.dtype)
            parts[key] = distribute_tensor(whole, tensor.device_mesh, tensor.placements, src_data_rank=None)
    return parts


def divide_optimizer(state, optimizer):
    """An optimizer's whole state, divided as its parameters are."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    parts = {}
    for number, values in state["state"].items():
        like = {key: parameters[number] for key, value in values.items() if getattr(value, "shape", None) == parameters[number].shape}
        parts[number] = divide(values, like)
    return {**state, "state": parts}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return self.inner(x)


net = Net()
net.load_state_dict(torch.load("start.pt"))
steps = torch.optim.SGD(net.parameters(), lr=0.1)
saved = torch.load("last.pt")
net.load_state_dict(divide(saved["net"], net.state_dict()), strict=False)
steps.load_state_dict(divide_optimizer(saved["steps"], steps))
best = copy.deepcopy(net.state_dict())
for _ in range(10):
    loss = net(torch.randn(4, 8)).square().mean()
    steps.zero_grad()
    loss.backward()
    steps.step()
net.load_state_dict(divide(best, net.state_dict()))
