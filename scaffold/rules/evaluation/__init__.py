"""SC5xx: evaluation, metrics and decisions taken from them."""
