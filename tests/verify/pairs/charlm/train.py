import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size, block, max_iters = int(sys.argv[1]), 8, 12
torch.manual_seed(5)
device = "cuda"
text = "the quick brown fox jumps over the lazy dog. " * 8
chars = sorted(set(text))
data = torch.tensor([chars.index(c) for c in text])


def get_batch():
    ix = torch.randint(len(data) - block, (batch_size,))
    x = torch.stack([data[i : i + block] for i in ix])
    y = torch.stack([data[i + 1 : i + block + 1] for i in ix])
    return x.to(device), y.to(device)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(chars), 16)
        self.mix = nn.GRU(16, 16, batch_first=True)
        self.head = nn.Linear(16, len(chars))

    def forward(self, x, y):
        logits = self.head(self.mix(self.embed(x))[0])
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())


model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for it in range(max_iters):
    lr = 1e-2 * 0.5 * (1 + math.cos(math.pi * it / max_iters))
    for group in optimizer.param_groups:
        group["lr"] = lr
    x, y = get_batch()
    loss = model(x, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if it % 4 == 0:
        print(f"iter {it}: loss {loss.item():.4f}, lr {lr:.5f}")
torch.save(model, "model.pt")
