"""Benchmarks of rewriting."""
