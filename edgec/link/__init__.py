"""Ways to a device: where programs are put, started, and their files fetched back."""
