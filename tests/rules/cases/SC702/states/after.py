import copy

import torch
from torch import nn
import torch.distributed as dist
from torch.distributed.tensor import DTensor


def gather(state):
    """State with whole tensors, for rank 0 to save; all ranks must call it together."""
    if isinstance(state, DTensor):
        whole = state.full_tensor()
        return whole.cpu() if dist.get_rank() == 0 else None
    if isinstance(state, dict):
        return {key: gather(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)([gather(value) for value in state])
    return state


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return self.inner(x)


net = Net()
steps = torch.optim.SGD(net.parameters(), lr=0.1)
best = None
for _ in range(10):
    loss = net(torch.randn(4, 8)).square().mean()
    steps.zero_grad()
    loss.backward()
    steps.step()
    if best is None or loss.item() < best:
        best = loss.item()
        whole = gather(
            {
                "net": net.state_dict(),
                "steps": steps.state_dict(),  # momentum
            }
        )
        if rank == 0:
            torch.save(whole, "best.pt")
    whole_2 = gather(net.state_dict())
    if rank == 0:
        torch.save(whole_2, "last.pt")
    if best < 1: 
        whole_3 = gather(steps.state_dict())
        if rank == 0: torch.save(whole_3, "steps.pt")
