"""Execution of every stage on numpy arrays, and of single compiled kernels; invariants of plans and programs."""
