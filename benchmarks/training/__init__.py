"""Training: gradients and steps beside PyTorch."""
