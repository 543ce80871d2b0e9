"""Benchmarks of microcontrollers and browsers."""
