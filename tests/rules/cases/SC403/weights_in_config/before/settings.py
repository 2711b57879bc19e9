import torch

DEVICE = torch.device("cuda")
CLASS_WEIGHTS = torch.tensor([1.0, 2.0, 0.5]).cuda()
BIAS = torch.zeros(3, device=DEVICE)
