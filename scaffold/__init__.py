"""Turn a single-GPU PyTorch training script into a multi-GPU one that provably trains the same."""

__version__ = "0.1.0"
