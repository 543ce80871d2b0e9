"""Checking: what every stage computes beside a reference, how fast it is, and where an error comes in."""
