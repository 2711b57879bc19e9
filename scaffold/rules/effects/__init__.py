"""SC6xx: output, files and checkpoints."""
