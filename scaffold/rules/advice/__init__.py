"""SC8xx: what changes with the number of GPUs, and what the user may want to decide."""
