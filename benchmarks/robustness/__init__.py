"""Growth, mutated files, special values and long runs: what hostile or odd input does to edgec."""
