"""Bounds that hold for the code that runs: of every output, for every input of a set."""
