"""Bias correction: what quantization shifts the mean of a channel by is taken off it (Nagel et al. 2019, section 4.2;
the shift is measured on calibration data, as in their appendix)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.compress.layers import Layer

Array = np.ndarray


def shift(layer: Layer, wanted: Sequence[Array], got: Sequence[Array]) -> Array:
    """Correction to be added to each channel of the result, f32 that broadcasts to it."""
    axes = tuple(d for d in range(wanted[0].ndim) if d != layer.channel)
    differences = [(w.astype(np.float64) - g).mean(axis=axes, keepdims=True) for w, g in zip(wanted, got)]
    return np.asarray(np.mean(differences, axis=0), np.float32)
