"""The attention schedule: online softmax over blocks of keys, masks and relative biases."""
