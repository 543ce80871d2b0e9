"""Cross-layer equalization: what a channel reaches in the weights before and behind becomes equal.

Nagel et al. 2019 (Data-Free Quantization, section 4.1) choose s = sqrt(r1 * r2) / r2 by the ranges r1 of what makes a
channel and r2 of what reads it. Here r1 is what the channel itself reaches on calibration data: with a scale for each
channel of weights, its own tensor is what has to share one.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def scales(reached: Array, weights: Array) -> list[Array]:
    """Of each channel; ``reached`` is its largest value, ``weights`` the largest weight that meets it."""
    return [shared(reached, weights, 0.5)]


def shared(reached: Array, weights: Array, part: float) -> Array:
    """Scales that take ``part`` of a channel's range out of the tensor: reached**part / weights**(1 - part).

    The largest is 1. Channels that calibration data hardly wake may wake later: they count as a part of the median.
    """
    reached, weights = _awake(reached), _awake(weights)
    s = reached**part / weights ** (1 - part)
    return np.asarray(s / s.max())


def _awake(values: Array) -> Array:
    return np.asarray(np.maximum(values, max(float(np.median(values)) / 4, float(values.max()) / 256, 1e-30)))
