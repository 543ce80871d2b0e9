"""Report on every layer of a compressed network, with reasons, as `edgec build` shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LayerReport:
    """One layer. ``share`` is its part of the error of all layers in bytes (0 to 1), ``gain_us`` what bytes are
    predicted to save (bf16, where it is in that), ``reason`` why it is not in bytes (empty where it is)."""

    name: str
    operator: str
    precision: str
    noise: float
    share: float
    gain_us: float
    corrections: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True)
class Report:
    """``errors`` says where the error of layers was measured: at the "outputs", each layer alone, or at the "layer".

    ``value`` is the figure that ``max_loss`` bounds, of the whole network on the calibration data, which are
    ``drawn`` where no real ones were given.
    """

    precision: str
    observer: str
    samples: int
    errors: str
    layers: tuple[LayerReport, ...]
    max_loss: str | None = None
    value: float | None = None
    drawn: bool = False


def largest(layers: Sequence[tuple[str, float]], total: float, most: int = 3) -> str:
    """The largest contributors, in words."""
    first = sorted(layers, key=lambda pair: -pair[1])[:most]
    return ", ".join(f"{name} ({error / total:.0%})" if total else name for name, error in first)
