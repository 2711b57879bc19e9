import torch
from torch import nn
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.mix(x)


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.floors = nn.ModuleList([Layer() for _ in range(3)])

    def forward(self, x):
        for floor in self.floors:
            x = floor(x)
        return x


tower = Tower().cuda()
for tensor in (*tower.parameters(), *tower.buffers()):
    dist.broadcast(tensor.detach(), src=0)  # fully_shard keeps each rank's own
mesh = init_device_mesh("cuda", (2, dist.get_world_size() // 2), mesh_dim_names=("replicate", "shard"))
for number, block in enumerate(tower.floors):
    tower.floors[number] = fully_shard(checkpoint_wrapper(block), mesh=mesh, offload_policy=CPUOffloadPolicy())
fully_shard(tower, mesh=mesh, offload_policy=CPUOffloadPolicy())
steps = torch.optim.AdamW(tower.parameters(), lr=1e-3)
for _ in range(10):
    loss = tower(torch.randn(4, 8).cuda()).square().mean()
    steps.zero_grad()
    loss.backward()
    steps.step()
