"""SC2xx: which samples each rank trains on."""
