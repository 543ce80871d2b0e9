"""SmoothQuant (Xiao et al. 2022): channels that stand out are made smaller, and their weights larger.

s = max|x|^a / max|w|^(1 - a). With a = 1/2 that is cross-layer equalization; here more of the range goes into the
weights, for one scale a tensor is what outliers of activations spoil, while weights have a scale for each result.
"""

from __future__ import annotations

import numpy as np

from edgec.compress.equalize import shared

Array = np.ndarray
#: How much of a channel's range moves into the weights. All of it, where each weight has a scale of its own anyway.
STRENGTHS = (0.75, 1.0)


def scales(reached: Array, weights: Array) -> list[Array]:
    """Of each channel; ``reached`` is its largest value, ``weights`` the largest weight that meets it."""
    return [shared(reached, weights, strength) for strength in STRENGTHS]
