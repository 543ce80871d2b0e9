"""What a layer in bytes saves on a device: predicted seconds, to compare, not to promise.

A layer takes the longer of its arithmetic and its bytes. Bytes are a quarter of floats, and as many more products of
them are summed at once as the device's instructions say; what is read has to be rounded to bytes first.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgec.compress.layers import Layer
from edgec.device.facts import Device
from edgec.rewrite.measure import Prices

#: A clock for devices that were not measured, and bytes a cycle from memory.
_GHZ, _BYTES = 3.0, 12.0
#: Operations that rounding one element to a byte takes: scale, round, offset, two bounds, store.
_ROUNDING = 6
#: Share of the peak that sums of products reach, of floats and of bytes; and depthwise ones, which reuse little.
_SHARE, _DEPTHWISE = 0.8, 0.4


@dataclass(frozen=True)
class Gain:
    """Seconds of a layer on one core in floats and in bytes."""

    floats: float
    bytes: float

    @property
    def saved(self) -> float:
        return self.floats - self.bytes


def gain(layer: Layer, device: Device) -> Gain:
    """What bytes gain in ``layer``; nothing on a GPU, whose kernels have no dot products of bytes yet."""
    lanes = device.lanes(4)
    peak = (device.figure("fp32_gflops") or 2 * _GHZ * lanes) * 1e9
    rate = (device.figure("read_gbps") or _GHZ * _BYTES) * 1e9
    is_depthwise = layer.node.op == "conv" and layer.weights.shape[1] == 1 and layer.weights.shape[0] > 1
    factor = Prices.on(device).bytes
    if is_depthwise and factor < 4:
        factor = 1
    arithmetic = 2.0 * layer.macs / (peak * (_DEPTHWISE if is_depthwise else _SHARE))
    elements = int(layer.source.type.elements)
    moved = layer.weights.size + 2 * elements  # the operand is written, and read
    rounding = elements * _ROUNDING / (peak / 2)
    floats = max(arithmetic, 4 * moved / rate)
    return Gain(floats, floats if device.is_gpu else max(arithmetic / factor, moved / rate) + rounding)
