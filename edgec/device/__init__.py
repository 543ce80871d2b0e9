"""What a device is, what this machine is, and which compiler builds for it."""
