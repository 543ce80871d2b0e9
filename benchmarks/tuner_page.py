"""The page of the tuner's results, computed from stored times."""

from __future__ import annotations

from typing import Any

import numpy as np


def kendall(a: np.ndarray, b: np.ndarray) -> float:
    """Kendall's tau-b of two rankings of the same things: 1 for the same order, 0 for none, -1 for the reverse."""
    one, two = (np.sign(v[:, None] - v[None, :]) for v in (np.asarray(a), np.asarray(b)))
    norm = float(np.sqrt((one * one).sum() * (two * two).sum()))
    return float((one * two).sum()) / norm if norm else 0.0


def page(times: Any, networks: Any) -> str:
    return ""
