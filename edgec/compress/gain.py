"""Predicted gain of an int8 layer on a device, in seconds, for comparison only.

The time of a layer is the maximum of its arithmetic and its memory traffic. In int8, traffic is a quarter of fp32's and
arithmetic is faster by a factor that depends on the device's instructions; rounding the operand to int8 is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from edgec.compress.layers import Layer
from edgec.device.device import Device
from edgec.rewrite.measure import OpCosts

#: Operations to round one element to int8: scale, round, offset, two bounds, store.
_ROUNDING = 6
#: fp32 multiply-adds per cycle of a GPU's multiprocessor, and the factors by which int8 is faster on tensor cores and
#: with dot products.
_THREADS, _TENSOR, _FOUR = 128, 16, 4
#: Bytes of k in a round of a tile on tensor cores, rounds that rounding an operand takes as long as, and rows that a
#: kernel without tiles computes. Fitted to layers of ResNet-50, BERT-base, MobileNetV3 and EfficientNetV2 on an H100.
_ROUND, _ROUNDING_ROUNDS, _FEW_ROWS = 128, 1.5, 2


@dataclass(frozen=True)
class Gain:
    """Seconds of a layer on one core in fp32, in int8 and, where the device has bf16 dot products, in bf16."""

    floats: float
    bytes: float
    bf16: float | None = None

    @property
    def saved(self) -> float:
        return self.floats - self.bytes

    @property
    def saved_by_bf16(self) -> float:
        return 0.0 if self.bf16 is None else self.floats - self.bf16


def gain(layer: Layer, device: Device) -> Gain:
    """Gain of int8 in ``layer``; nothing on a GPU that multiplies int8 no faster than fp32."""
    if device.is_gpu:
        return _gain_on_gpu(layer, device)
    lanes = device.lanes(4)
    core, costs = device.costs.kernel, device.costs.compression
    peak = (device.figure("fp32_gflops") or 2 * core.clock_ghz * lanes) * 1e9
    rate = (device.figure("read_gbps") or core.clock_ghz * core.memory_bytes) * 1e9
    is_depthwise = layer.node.op == "conv" and layer.weights.shape[1] == 1 and layer.weights.shape[0] > 1
    factor = OpCosts.on(device).bytes
    if is_depthwise and factor < 4:
        factor = 1
    arithmetic = 2.0 * layer.macs / (peak * (costs.depthwise_share if is_depthwise else costs.peak_share))
    elements = int(layer.source.type.elements)
    moved = layer.weights.size + 2 * elements  # the operand is written and read
    rounding = elements * _ROUNDING / (peak / 2)
    floats = max(arithmetic, 4 * moved / rate)
    narrow = max(arithmetic / factor, moved / rate) + rounding
    if is_depthwise or not device.has_bf16_dot or device.precision != "fp32":
        return Gain(floats, narrow)
    return Gain(floats, narrow, max(arithmetic / 2, 2 * moved / rate) + elements / (peak / 2))


def _gain_on_gpu(layer: Layer, device: Device) -> Gain:
    """The gain on a GPU; arithmetic overlaps with memory accesses, and depthwise convolutions gain only in traffic."""
    peak = device.gpu.multiprocessors * max(device.gpu.clock_mhz, 1) * 1e6 * 2 * _THREADS
    rate = max(device.gpu.memory_gbps, 1) * 1e9
    size, speed = {"fp32": (4, 1), "tf32": (4, 4), "fp16": (2, 8), "bf16": (2, 8)}[device.precision]
    if device.language == "opencl":
        speed = 2 if device.precision == "fp16" and "cl_khr_fp16" in device.gpu.opencl_extensions else 1
    is_depthwise = layer.node.op == "conv" and layer.weights.shape[1] == 1 and layer.weights.shape[0] > 1
    moved = layer.weights.size + 2 * int(layer.source.type.elements)
    arithmetic = 2.0 * layer.macs / peak
    floats = max(arithmetic / (1 if is_depthwise else speed), size * moved / rate)
    if not (device.has_int8_tensor_cores or device.has_dot4):
        return Gain(floats, floats)
    faster = _TENSOR if device.has_int8_tensor_cores else _FOUR
    narrow = max(arithmetic / (1 if is_depthwise else faster), moved / rate)
    if not device.has_int8_tensor_cores:
        return Gain(floats, narrow)
    if is_depthwise or not _is_tiled(layer):
        return Gain(floats, max(floats, narrow))
    factors = 3 if device.precision == "fp32" else 1  # one fp32 product is three
    return Gain(floats + _rounds(layer, device, factors * size), narrow + _rounds(layer, device, 1))


def _is_tiled(layer: Layer) -> bool:
    """Is it for tiles of tensor cores: several rows, and operands that are copied 16 bytes of int8 at a time?"""
    shape = layer.weights.shape
    adjacent = shape[1] if layer.node.op == "conv" else shape[layer.summed[0]]
    rows = int(layer.node.type.elements) // max(1, prod(shape) // prod(shape[d] for d in layer.summed))
    return bool(rows > _FEW_ROWS and adjacent % 16 == 0)


def _rounds(layer: Layer, device: Device, size: int) -> float:
    """Seconds of the rounds of a tile, where a factor has ``size`` bytes; rounding to int8 takes as long as some."""
    costs = device.costs.tensor_tile
    depth = prod(layer.weights.shape[d] for d in layer.summed)
    rounds = ceil(depth * size / _ROUND) + (_ROUNDING_ROUNDS if size == 1 else 0.0)
    return float(rounds * (costs.copy_latency / 3 + costs.round) / (max(device.gpu.clock_mhz, 1) * 1e6))
