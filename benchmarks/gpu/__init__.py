"""Benchmarks in CUDA and OpenCL."""
