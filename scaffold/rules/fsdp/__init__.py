"""SC7xx: models sharded by FSDP2 (``--strategy fsdp2``)."""
