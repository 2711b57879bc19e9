"""What a run costs: wall-clock time, GPU-hours and money, in decimals."""
