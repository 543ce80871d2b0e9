"""Weights of a few bits each, quantized by blocks: packed into bytes, the first one in the low bits."""

from __future__ import annotations

import numpy as np

from edgec.frontend.onnx.call import Call
from edgec.frontend.onnx.indices import require_inside
from edgec.frontend.onnx.operators.linear import matmul_of
from edgec.frontend.onnx.operators.microsoft.domain import microsoft
from edgec.frontend.values import Value, build, concat, constant, dequantized, emit, normalize_axis
from edgec.ir.graph import constant as constant_node
from edgec.ir.types import DTYPES


def unpacked(call: Call, packed: Value, bits: int) -> Value:
    """The codes along the last dimension, which becomes 8 / bits times as long."""
    if bits not in (2, 4, 8):
        raise call.error(f"weights of {bits} bits are not supported", "2, 4 and 8 are")
    if bits == 8:
        return packed
    shifts = range(0, 8, bits)
    shape = (*packed.shape[:-1], packed.shape[-1] * len(shifts))
    if packed.is_const:
        codes = (packed.node.value[..., None] >> np.array([*shifts], np.uint8)) & np.uint8(2**bits - 1)
        return Value(constant_node(codes.reshape(shape).astype(DTYPES[f"u{bits}"])))
    parts = [emit("bitand", emit("shr", packed, shift), 2**bits - 1).unsqueeze(-1) for shift in shifts]
    return concat(parts, packed.rank).reshape(*shape).cast(f"u{bits}")


def _centered(codes: Value, bits: int) -> Value:
    """Codes without a zero point of their own: it is the middle of their range."""
    middle = 2 ** (bits - 1)
    if codes.is_const:
        return Value(constant_node((codes.node.value.astype(np.int16) - middle).astype(DTYPES[f"i{bits}"])))
    return emit("sub", codes.cast("i32"), middle)


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
    codes = unpacked(call, packed.reshape(outputs, blocks * block * bits // 8), bits).part(1, 0, inputs)
    zero, scales = _zero_points(call, bits, outputs, blocks), call[2].reshape(outputs, blocks)
    if zero is None:
        codes = _centered(codes, bits)
    if groups is not None:  # each input says which block's scale and zero point it has
        w = _widened(codes)
        w = w if zero is None else w - _widened(zero).gather(groups, 1)
        w = w * scales.cast("f32").gather(groups, 1)
    else:
        offset = -(zero * scales.cast("f32")) if zero is not None and zero.is_float else zero
        w = dequantized(codes, scales, offset, 1, block)
    y = matmul_of(x.cast("f32"), w.swap(0, 1)).cast(x.dtype)
    return y if bias is None else y + bias


#: The values of the codes of MatMulBnb4: of a float of 4 bits, and those of equal probability in a normal distribution.
_FP4 = (0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 0.5, 1 / 6, 0.25)
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip


@microsoft("MatMulBnb4")
def matmul_bnb4(call: Call) -> Value:
    """x @ w.T; the weights [N, K] are codes of 16 values, the first of two in the high bits, with a factor a block."""
    outputs, inputs, block = call.required("N"), call.required("K"), call.required("block_size")
    kind = call.required("quant_type")
    if kind not in (0, 1):
        raise call.error(f"quant_type {kind} is not known", "0 (FP4) and 1 (NF4) are")
    values = constant(np.array(_NF4 if kind else (*_FP4, *(-v for v in _FP4)), np.float32))
    packed, count = call[1].reshape(call[1].type.elements), outputs * inputs
    codes = concat([emit("shr", packed, 4).unsqueeze(1), emit("bitand", packed, 15).unsqueeze(1)], 1)
    w = values.gather(codes.reshape(2 * packed.shape[0]).cast("i32"), 0)
    blocks = -(-count // block)
    w = w.pad((0,), (blocks * block - w.shape[0],)).reshape(blocks, block)
    w = (w * call[2].reshape(blocks, 1).cast("f32")).reshape(blocks * block).part(0, 0, count)
    return matmul_of(call[0].cast("f32"), w.reshape(outputs, inputs).swap(0, 1)).cast(call[0].dtype)


def _zero_points(call: Call, bits: int, outputs: int, blocks: int) -> Value | None:
    """[outputs, blocks]; None for the middle of the codes."""
    zero = call.optional(3)
    if zero is None:
        return None
    if zero.is_float:
        return zero.reshape(outputs, blocks).cast("f32")
    row = -(-blocks * bits // 8)
    return unpacked(call, zero.reshape(outputs, row), bits).part(1, 0, blocks)


@microsoft("GatherBlockQuantized")
def gather_block_quantized(call: Call) -> Value:
    """Slices of a quantized table, dequantized."""
    data, positions, scales, zero = call[0], call[1], call[2], call.optional(3)
    if data.dtype == "u8":
        bits = call.attribute("bits", 4)
        data = unpacked(call, data, bits)
        if zero is None:
            data = _centered(data, bits)
        else:
            zero = unpacked(call, zero, bits)
    axis = normalize_axis(call.attribute("quantize_axis", 1), data.rank)
    along = normalize_axis(call.attribute("gather_axis", 0), data.rank)
    require_inside(call, positions, data.shape[along])
    block = call.attribute("block_size", 128) or data.shape[axis]
    if zero is not None:
        zero = zero.part(axis, 0, scales.shape[axis])
    if axis == along:  # blocks do not survive: everything is widened first
        return dequantized(data, scales, zero, axis, block).cast(scales.dtype).gather(positions, axis)
    shifted = axis + (positions.rank - 1 if along < axis else 0)
    codes, factors = data.gather(positions, along), scales.gather(positions, along)
    zeros = zero.gather(positions, along) if zero is not None else None
    return dequantized(codes, factors, zeros, shifted, block).cast(scales.dtype)
