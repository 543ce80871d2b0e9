"""Emission: programs become source text, and source text becomes a project."""
