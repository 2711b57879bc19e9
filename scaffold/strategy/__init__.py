"""Which strategy fits: parameters, precision and optimizer to bytes per GPU, bytes to DDP, FSDP2, LoRA or other hardware."""
