"""Weights of floats as a file has them."""

from __future__ import annotations

import numpy as np

from edgec.frontend.values import Value, build, constant


def stored(array: np.ndarray) -> Value:
    """A tensor of floats, in f32; the network itself widens matrices of 16 bits, which are so stored as they are."""
    if array.ndim == 2 and array.dtype.itemsize == 2:
        return build("cast", constant(array), to="f32")
    return constant(array.astype(np.float32))
