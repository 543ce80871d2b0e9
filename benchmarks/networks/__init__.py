"""Networks of the benchmarks: where they come from, and how they are made."""
