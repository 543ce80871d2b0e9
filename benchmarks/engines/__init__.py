"""Other inference engines: installing them, converting networks for them, and taking turns with them."""
