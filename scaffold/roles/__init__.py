"""What each thing in a training script is, found by following values, never by names."""
