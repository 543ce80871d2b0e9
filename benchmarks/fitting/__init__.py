"""Devices whose costs are fitted to their own kernels, and what that gains."""
