"""Language models: the decoder of an architecture as a graph, with a cache of keys and values that are states."""
