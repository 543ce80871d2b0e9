"""Devices: their facts, detection of this machine, and compilers."""
