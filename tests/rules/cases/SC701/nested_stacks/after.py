import torch
from torch import nn
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.mix(x)


class Half(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.stages = nn.Sequential(*[Layer() for _ in range(depth)])

    def forward(self, x):
        return self.stages(x)


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"reader": Half(2), "writer": Half(3)})
        self.last = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 2)

    def forward(self, x):
        return self.last(self.parts["writer"](self.parts["reader"](x)))


def groups(module):
    decayed = [p for p in module.parameters() if p.dim() > 1]
    plain = [p for p in module.parameters() if p.dim() < 2]
    return [{"params": decayed, "weight_decay": 0.1}, {"params": plain}]


def main():
    both = Both().to("cuda")
    print(both)
    for tensor in (*both.parameters(), *both.buffers()):
        dist.broadcast(tensor.detach(), src=0)  # fully_shard keeps each rank's own
    for block in both.last.layers:
        fully_shard(block)
    for block in both.parts.reader.stages:
        fully_shard(block)
    for block in both.parts.writer.stages:
        fully_shard(block)
    fully_shard(both)
    # two groups
    split = groups(both)
    steps = torch.optim.AdamW(split, lr=1e-3)
    for _ in range(10):
        loss = both(torch.randn(4, 5, 8, device="cuda")).square().mean()
        steps.zero_grad()
        loss.backward()
        steps.step()


main()
