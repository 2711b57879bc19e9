"""SC1xx: launch and process group."""
