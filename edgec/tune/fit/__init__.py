"""Fitting a device's costs: timed kernels, and the constants of the formulas that price plans solved for."""
