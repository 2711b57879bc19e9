import torch
from torch import nn

from settings import CLASS_WEIGHTS, DEVICE

head = nn.Linear(4, 3).to(DEVICE)
loss_fn = nn.CrossEntropyLoss(weight=CLASS_WEIGHTS)
opt = torch.optim.SGD(head.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(8, 4, device=DEVICE)
    y = torch.randint(0, 3, (8,), device=DEVICE)
    opt.zero_grad()
    loss_fn(head(x), y).backward()
    opt.step()
