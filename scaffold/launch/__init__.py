"""Files that start a converted script where its user has GPUs. One target is one module in ``targets`` and one template."""
