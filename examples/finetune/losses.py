import torch
from torch import nn
from torch.nn import functional as F


class ProxyLoss(nn.Module):
    """Cosine softmax over learnable class proxies (so the *criterion* has parameters to be trained)."""

    def __init__(self, num_classes, dim, scale=10.0, label_smoothing=0.1):
        super().__init__()
        self.proxies = nn.Parameter(torch.randn(num_classes, dim) * 0.1)
        self.log_scale = nn.Parameter(torch.tensor(scale).log())
        self.label_smoothing = label_smoothing

    def logits(self, emb):
        return self.log_scale.exp() * F.normalize(emb) @ F.normalize(self.proxies).t()

    def forward(self, emb, target):
        return F.cross_entropy(self.logits(emb), target, label_smoothing=self.label_smoothing)
