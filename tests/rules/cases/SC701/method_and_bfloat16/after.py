import torch
from torch import nn
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 16)
        self.blocks = nn.ModuleList()
        for _ in range(4):
            self.blocks.append(nn.TransformerEncoderLayer(16, 2))
        self.head = nn.Linear(16, 1)

    def forward(self, ids):
        x = self.table(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def nearest(self, vector):
        return (self.table.weight @ vector).argmax()

    def score(self, ids):
        return self(ids).sigmoid()


class Loop:
    def __init__(self, scorer):
        self.scorer = scorer.cuda()
        for tensor in (*self.scorer.parameters(), *self.scorer.buffers()):
            dist.broadcast(tensor.detach(), src=0)  # fully_shard keeps each rank's own
        mixed = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in self.scorer.blocks:
            fully_shard(block, mp_policy=mixed)
        fully_shard(self.scorer, mp_policy=mixed)
        register_fsdp_forward_method(self.scorer, "nearest")
        self.steps = torch.optim.SGD(self.scorer.parameters(), lr=0.1)

    def run(self):
        for _ in range(10):
            ids = torch.randint(100, (8, 3)).cuda()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = self.scorer.score(ids).mean()
            self.steps.zero_grad()
            loss.backward()
            self.steps.step()
        return self.scorer.nearest(torch.zeros(16).cuda())


Loop(Scorer()).run()
