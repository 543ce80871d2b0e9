"""Modules of PyTorch through edgec, beside PyTorch."""
