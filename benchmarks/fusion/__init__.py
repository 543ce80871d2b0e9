"""Benchmarks of fusing, planning and tuning."""
