"""Report on every layer that could be pruned, with reasons."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PrunedLayer:
    """One layer. ``zeros`` is the share of its weights that are zero now, ``error`` the mean square of the difference
    of its results as a part of theirs (None where there were no data), ``gain`` how many times as fast as dense the
    device's model says it is, ``break_even`` from which share of zero vectors on it gains; ``reason`` why it stayed
    dense (empty where it did not)."""

    name: str
    operator: str
    shape: tuple[int, ...]
    zeros: float
    error: float | None
    gain: float | None
    break_even: float | None
    reason: str = ""


@dataclass(frozen=True)
class PruneReport:
    """``value`` is the figure that ``max_loss`` bounds, of the whole network on calibration data held back."""

    scheme: str
    method: str
    sparsity: float | None
    samples: int
    layers: tuple[PrunedLayer, ...]
    max_loss: str | None = None
    value: float | None = None

    @property
    def zeros(self) -> float:
        """The share of the weights of all these layers that are zero."""
        sizes = [_size(row.shape) for row in self.layers]
        return sum(row.zeros * s for row, s in zip(self.layers, sizes)) / max(sum(sizes), 1)


def _size(shape: tuple[int, ...]) -> int:
    total = 1
    for n in shape:
        total *= n
    return total
