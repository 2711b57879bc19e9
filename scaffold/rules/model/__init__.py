"""SC3xx: the model and the optimizer step."""
