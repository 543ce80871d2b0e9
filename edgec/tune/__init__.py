"""Tuning: kernels timed alone, here or on a device, and kept in the profile database."""
