"""The way from PyTorch: modules as models, and a backend of torch.compile. PyTorch itself is no dependency."""
