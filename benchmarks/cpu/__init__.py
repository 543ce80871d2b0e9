"""Benchmarks of kernels and networks on CPUs."""
