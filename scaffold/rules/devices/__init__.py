"""SC4xx: which GPU each process uses."""
