"""Weights of a few bits each, quantized by blocks: packed into bytes, the first one in the low bits."""

from __future__ import annotations

from collections.abc import Callable

from edgec.frontend.onnx.call import Call
from edgec.frontend.onnx.operators.linear import matmul_of
from edgec.frontend.onnx.operators.microsoft.domain import microsoft
from edgec.frontend.values import Value, build, concat, constant, emit, normalize_axis


def unpacked(call: Call, packed: Value, bits: int) -> Value:
    """The codes along the last dimension, which becomes 8 / bits times as long."""
    if bits not in (2, 4, 8):
        raise call.error(f"weights of {bits} bits are not supported", "2, 4 and 8 are")
    if bits == 8:
        return packed
    parts = [emit("bitand", emit("shr", packed, shift), 2**bits - 1).unsqueeze(-1) for shift in range(0, 8, bits)]
    return concat(parts, packed.rank).reshape(*packed.shape[:-1], packed.shape[-1] * len(parts)).cast(f"u{bits}")


def _widened(x: Value) -> Value:
    """As f32, which is left to the compiler: quantized weights are to stay quantized."""
    return Value(build("cast", x, to="f32").node)


@microsoft("MatMulNBits")
def matmul_nbits(call: Call) -> Value:
    """x @ w.T; the weights [N, blocks, bytes of a block] have a scale, and a zero point or the middle, a block."""
    x, packed, bias = call[0], call[1], call.optional(5)
    bits, block = call.attribute("bits", 4), call.required("block_size")
    outputs, inputs = call.required("N"), call.required("K")
    blocks = -(-inputs // block)
    groups = call.optional(4)
    # In even blocks, four bits are found again by the values they give (schedule/contract/int4.py).
    widen = _widened if bits > 4 or groups is not None else (lambda x: x.cast("f32"))
    codes = widen(unpacked(call, packed.reshape(outputs, blocks, block * bits // 8), bits))
    zero = _zero_points(call, bits, outputs, blocks, widen)
    scales = call[2].reshape(outputs, blocks).cast("f32")
    if groups is not None:  # each input says which block's scale and zero point it has
        codes = codes.reshape(outputs, blocks * block).part(1, 0, inputs)
        spread = [v.gather(groups, 1) if v.rank else v for v in (zero, scales)]
        w = (codes - spread[0]) * spread[1]
    else:
        zero, scales = (v.unsqueeze(-1) if v.rank else v for v in (zero, scales))
        w = ((codes - zero) * scales).reshape(outputs, blocks * block).part(1, 0, inputs)
    y = matmul_of(x.cast("f32"), w.swap(0, 1)).cast(x.dtype)
    return y if bias is None else y + bias


def _zero_points(call: Call, bits: int, outputs: int, blocks: int, widen: Callable[[Value], Value]) -> Value:
    zero = call.optional(3)
    if zero is None:
        return constant(2.0 ** (bits - 1), "f32")
    if zero.is_float:
        return zero.reshape(outputs, blocks).cast("f32")
    row = -(-blocks * bits // 8)
    return widen(unpacked(call, zero.reshape(outputs, row), bits).part(1, 0, blocks))


@microsoft("GatherBlockQuantized")
def gather_block_quantized(call: Call) -> Value:
    """Slices of a quantized table, dequantized."""
    data, positions, scales, zero = call[0], call[1], call[2], call.optional(3)
    if data.dtype == "u8":
        bits = call.attribute("bits", 4)
        data = unpacked(call, data, bits)
        zero = constant(2 ** (bits - 1), "u8") if zero is None else unpacked(call, zero, bits)
    axis = normalize_axis(call.attribute("quantize_axis", 1), data.rank)
    along = normalize_axis(call.attribute("gather_axis", 0), data.rank)
    block = call.attribute("block_size", 128) or data.shape[axis]
    if axis == along:  # blocks do not survive: everything is widened first
        return _dequantized(data, scales, zero, axis, block).gather(positions, axis)
    chosen = [_picked(v, positions, along) for v in (data, scales, zero)]
    assert chosen[0] is not None and chosen[1] is not None
    shifted = axis + (positions.rank - 1 if along < axis else 0)
    return _dequantized(chosen[0], chosen[1], chosen[2], shifted, block)


def _picked(v: Value | None, positions: Value, axis: int) -> Value | None:
    """The slices of one operand; one that is the same for all has extent 1 there, where every index is 0."""
    return v if v is None or v.rank == 0 else v.gather(positions, axis)


def _dequantized(x: Value, scales: Value, zero: Value | None, axis: int, block: int) -> Value:
    """(x - zero) * scale, for blocks of ``block`` elements along ``axis``."""

    def spread(v: Value) -> Value:
        if v.rank == 0:
            return v
        wide = v.unsqueeze(axis + 1)
        wide = wide.broadcast(*wide.shape[: axis + 1], block, *wide.shape[axis + 2 :])
        shape = [*v.shape]
        shape[axis] *= block
        return wide.reshape(*shape).part(axis, 0, x.shape[axis])

    y = _widened(x)
    y = y if zero is None else y - spread(_widened(zero))
    return (y * spread(scales.cast("f32"))).cast(scales.dtype)
