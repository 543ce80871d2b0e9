"""The built folder: writing, compiling, loading and locking it; saved stages."""
