"""Advice on a model for a device: which options pay, what they cost, and what in the model itself costs most."""
