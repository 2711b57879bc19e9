"""What a run costs: prices, scaling over machines, failures, and whether a second machine is worth it."""
