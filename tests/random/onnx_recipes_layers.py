"""Recipes for matmuls, convolutions, pools, samplings and recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_graphs import Maker, recipe
from onnx_reference import Rejected, Tensor

WIDE = ("float32", "float32", "float32", "float64")

# ---- products


def summed(a: Tensor) -> None:
    """onnxruntime leaves a product over nothing as it finds the memory."""
    if not a.shape[-1]:
        raise Rejected("a product over nothing")


@recipe("MatMul")
def matmul(m: Maker, op: str) -> None:
    a = m.operand((*WIDE, "float32", "float16", "int32"), range(1, 5))
    summed(a)
    batch = [1 if m.chance(3) else e for e in a.shape[:-2]] if m.chance(2) else []
    shape = (a.shape[-1],) if m.chance(6) else (*batch, a.shape[-1], m.shape(1)[0])
    b = m.like(shape, a.dtype)
    m.node(op, a, b)


@recipe("Gemm")
def gemm(m: Maker, op: str) -> None:
    a = m.operand(WIDE, (2,))
    turned, transposed = m.number(0, 1), m.number(0, 1)
    inner, rows, columns = a.shape[1 - turned], a.shape[turned], m.shape(1)[0]
    b = m.like((columns, inner) if transposed else (inner, columns), a.dtype)
    shapes = ((columns,), (1, columns), (rows, 1), (rows, columns), (1,), ())
    c = [m.new(m.pick(shapes), a.dtype)] if m.opset < 11 or m.chance(2) else []
    scales = {"alpha": m.pick((1.0, 0.5)), "beta": m.pick((1.0, 2.0))} if m.chance(2) else {}
    m.node(op, a, b, *c, transA=turned, transB=transposed, **scales)


@recipe("MatMulInteger")
def matmul_integer(m: Maker, op: str) -> None:
    a = m.operand(("uint8", "int8"), (2, 3))
    summed(a)
    b = m.like((a.shape[-1], m.number(1, 9)), m.pick(("uint8", "int8")))
    zeros = [m.uniform(0, 5, (), a.dtype), m.uniform(0, 5, (), b.dtype)][: m.number(0, 2)]
    m.node(op, a, b, *zeros)


def scale(m: Maker, shape: tuple[int, ...] = ()) -> Tensor:
    return m.leaf((0.01 + m.random.random(shape) / 9).astype(np.float32), True)


@recipe("QLinearMatMul")
def qlinear_matmul(m: Maker, op: str) -> None:
    a = m.operand(("uint8", "int8"), (2, 3))
    summed(a)
    dtype = "int8" if a.dtype == "int8" else m.pick(("uint8", "int8"))
    b = m.like((a.shape[-1], m.number(1, 9)), dtype)
    zeros = [m.uniform(0, 9, (), t, True) for t in (a.dtype, b.dtype, a.dtype)]
    m.node(op, a, scale(m), zeros[0], b, scale(m), zeros[1], scale(m), zeros[2], steps=1)


# ---- windows


def window(m: Maker, space: tuple[int, ...], dilated: bool = True) -> dict[str, Any]:
    """Kernel, strides, paddings and dilations that fit ``space``."""
    kernel = [m.number(1, min(3, e)) for e in space]
    made: dict[str, Any] = {"kernel_shape": kernel}
    if m.chance(2):
        made["strides"] = [m.number(1, 3) for _ in kernel]
    if dilated and m.chance(3):
        made["dilations"] = [m.number(1, 2) if (e - 1) // max(k - 1, 1) >= 2 else 1 for e, k in zip(space, kernel)]
    if m.chance(4) and "dilations" not in made:
        made["auto_pad"] = m.pick(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif m.chance(2):
        made["pads"] = [m.number(0, k - 1) for k in kernel * 2]
    return made


def groups_of(m: Maker, channels: int) -> int:
    return int(m.pick([g for g in {1, 2, 3, channels} if channels % g == 0]))


@recipe("Conv")
def conv(m: Maker, op: str) -> None:
    x = m.operand(("float32", "float32", "float32", "float16"), (3, 4, 4, 5), least=1)
    groups = groups_of(m, x.shape[1])
    outputs = groups * m.pick((1, 1, 2, 3, 8))
    settings = window(m, x.shape[2:])
    w = m.new((outputs, x.shape[1] // groups, *settings["kernel_shape"]), x.dtype)
    m.node(op, x, w, *([m.new((outputs,), x.dtype)] if m.chance(2) else []), group=groups, **settings)


@recipe("ConvTranspose")
def conv_transpose(m: Maker, op: str) -> None:
    x = m.operand(("float32",), (3, 4, 4, 5), least=1)
    if x.array.size > 300:
        raise Rejected("large")
    groups = groups_of(m, x.shape[1])
    kernel = [m.number(1, 3) for _ in x.shape[2:]]
    strides = [m.number(1, 3) for _ in kernel]
    settings: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
    if m.chance(3):
        settings["dilations"] = [m.number(1, 2) for _ in kernel]
    if m.chance(2):
        settings["pads"] = [m.number(0, (k - 1) // 2) for k in kernel * 2]
    if m.chance(3):
        settings["output_padding"] = [m.number(0, s - 1) for s in strides]
    each = m.number(1, 3)
    w = m.new((x.shape[1], each, *kernel))
    m.node(op, x, w, *([m.new((groups * each,))] if m.chance(2) else []), group=groups, **settings)


@recipe("ConvInteger", "QLinearConv")
def conv_integer(m: Maker, op: str) -> None:
    x = m.operand(("uint8", "int8") if op == "QLinearConv" else ("uint8",), (3, 4), least=1)
    groups = groups_of(m, x.shape[1])
    outputs = groups * m.number(1, 3)
    settings = window(m, x.shape[2:])
    dtype = m.pick(("uint8", "int8")) if x.dtype == "uint8" else "int8"
    w = m.new((outputs, x.shape[1] // groups, *settings["kernel_shape"]), dtype, True)
    zero_x, zero_w, zero_y = (m.uniform(0, 9, (), t, True) for t in (x.dtype, dtype, x.dtype))
    if op == "ConvInteger":
        m.node(op, x, w, *[zero_x, zero_w][: m.number(0, 2)], group=groups, **settings)
        return
    bias = [m.uniform(-99, 99, (outputs,), "int32", True)] if m.chance(2) else []
    m.node(op, x, scale(m), zero_x, w, scale(m), zero_w, scale(m), zero_y, *bias, group=groups, steps=1, **settings)


@recipe("MaxPool")
def max_pool(m: Maker, op: str) -> None:
    x = m.operand(("float32", "float32", "float64"), (3, 4, 4, 5), least=1)
    settings = window(m, x.shape[2:], m.opset >= 10)
    if m.opset >= 10 and m.chance(3) and "auto_pad" not in settings:
        settings["ceil_mode"] = 1
    m.node(op, x, outputs=m.number(1, 2), keeps=True, **settings)


@recipe("AveragePool")
def average_pool(m: Maker, op: str) -> None:
    x = m.operand(("float32",), (3, 4, 4, 5), least=1)
    settings = window(m, x.shape[2:], m.opset >= 19)
    if m.opset >= 10 and m.chance(3) and "auto_pad" not in settings:
        settings["ceil_mode"] = 1
    m.node(op, x, count_include_pad=m.number(0, 1), **settings)


@recipe("LpPool")
def lp_pool(m: Maker, op: str) -> None:
    x = m.operand(("float32",), (3, 4, 5), least=1)
    m.node(op, x, p=m.number(1, 3), **window(m, x.shape[2:], m.opset >= 18))


@recipe("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(m: Maker, op: str) -> None:
    m.node(op, m.operand(("float32",), (3, 4, 5), least=1))


@recipe("MaxUnpool")
def max_unpool(m: Maker, op: str) -> None:
    shape = (m.number(1, 2), m.number(1, 3), m.number(2, 6), m.number(2, 6))
    settings = {"kernel_shape": [2, 2], "strides": [2, 2]}
    pooled = m.node("MaxPool", m.like(shape), outputs=2, keeps=True, **settings)
    m.node(op, *pooled, keeps=True, **settings)


@recipe("DeformConv")
def deform_conv(m: Maker, op: str) -> None:
    c, o, kh, kw = (m.number(1, 3) for _ in range(4))
    x = m.like((m.number(1, 2), c, m.number(kh, 6), m.number(kw, 6)))
    space = (x.shape[2] - kh + 1, x.shape[3] - kw + 1)
    w, offset = m.new((o, c, kh, kw)), m.new((x.shape[0], 2 * kh * kw, *space))
    m.node(op, x, w, offset, *([m.new((o,))] if m.chance(2) else []), kernel_shape=[kh, kw])


@recipe("Col2Im")
def col2im(m: Maker, op: str) -> None:
    h, w, kh, kw = m.number(2, 6), m.number(2, 6), m.number(1, 2), m.number(1, 2)
    x = m.like((m.number(1, 2), m.number(1, 3) * kh * kw, (h - kh + 1) * (w - kw + 1)))
    m.node(op, x, m.ints([h, w]), m.ints([kh, kw]))


# ---- resampling


@recipe("Resize")
def resize(m: Maker, op: str) -> None:
    x = m.operand(("float32",), (4,), least=1)
    factors = [1.0, 1.0, m.pick((0.5, 1.0, 2.0, 1.5, 3.0)), m.pick((0.5, 1.0, 2.0, 2.5))]
    mode = m.pick(("nearest", "linear", "cubic") if m.opset >= 11 else ("nearest", "linear"))
    if m.opset < 11:
        if m.opset < 10:
            raise Rejected("old")
        m.node(op, x, m.constant(factors, "float32"), mode=mode)
        return
    ways = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    settings: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": m.pick(ways)}
    if mode == "nearest":
        settings["nearest_mode"] = m.pick(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    if m.opset >= 18 and mode != "nearest" and m.chance(3):
        settings["antialias"] = 1
    roi = m.constant(np.zeros(0, np.float32)) if m.opset < 13 else None
    # With aligned corners, onnxruntime and ONNX's reference differ where a scaled length is no whole number.
    is_whole = all(float(e * f).is_integer() for e, f in zip(x.shape, factors))
    if m.chance(2) and (is_whole or settings["coordinate_transformation_mode"] != "align_corners"):
        m.node(op, x, roi, m.constant(factors, "float32"), **settings)
    else:
        empty = m.constant(np.zeros(0, np.float32)) if m.opset < 13 else None
        sizes = [*x.shape[:2], *(max(1, int(e * f)) for e, f in zip(x.shape[2:], factors[2:]))]
        m.node(op, x, roi, empty, m.ints(sizes), **settings)


@recipe("Upsample")
def upsample(m: Maker, op: str) -> None:
    x = m.operand(("float32",), (4,), least=1)
    m.node(op, x, m.constant([1, 1, m.number(1, 3), m.number(1, 3)], "float32"), mode=m.pick(("nearest", "linear")))


@recipe("GridSample")
def grid_sample(m: Maker, op: str) -> None:
    x = m.operand(("float32",), (4,), least=2)
    grid = m.leaf(m.random.uniform(-1.2, 1.2, (x.shape[0], m.number(1, 4), m.number(1, 4), 2)).astype(np.float32))
    modes = ("linear", "nearest", "cubic") if m.since(op) >= 20 else ("bilinear", "nearest", "bicubic")
    m.node(op, x, grid, mode=m.pick(modes), padding_mode=m.pick(("zeros", "border", "reflection")),
           align_corners=m.number(0, 1))  # fmt: skip


@recipe("AffineGrid")
def affine_grid(m: Maker, op: str) -> None:
    rank, batch = m.number(2, 3), m.number(1, 2)
    sizes = m.ints([batch, 1, *(m.number(1, 4) for _ in range(rank))])
    m.node(op, m.new((batch, rank, rank + 1)), sizes, align_corners=m.number(0, 1))


@recipe("MaxRoiPool")
def max_roi_pool(m: Maker, op: str) -> None:
    x = m.operand(("float32",), (4,), least=2)
    count = m.number(1, 3)
    picture = m.random.integers(0, x.shape[0], (count, 1))
    rois = m.leaf(np.concatenate([picture, m.random.uniform(-2, 9, (count, 4))], 1).astype(np.float32))
    m.node(op, x, rois, pooled_shape=[m.number(1, 3), m.number(1, 3)], spatial_scale=m.pick((1.0, 0.5)))


@recipe("RoiAlign")
def roi_align(m: Maker, op: str) -> None:
    x = m.operand(("float32",), (4,), least=2)
    count = m.number(1, 3)
    corner = m.random.uniform(0, 4, (count, 2))
    rois = m.leaf(np.concatenate([corner, corner + m.random.uniform(1, 5, (count, 2))], 1).astype(np.float32))
    m.node(op, x, rois, m.uniform(0, x.shape[0], (count,), "int64"), output_height=m.number(1, 3),
           output_width=m.number(1, 3), sampling_ratio=m.number(0, 2), mode="avg", spatial_scale=m.pick((1.0, 0.5)),
           **({"coordinate_transformation_mode": m.pick(("half_pixel", "output_half_pixel"))}
              if m.since(op) >= 16 else {}))  # fmt: skip


# ---- recurrent layers

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@recipe(*GATES)
def recurrent(m: Maker, op: str) -> None:
    x = m.operand(("float32",), (3,), least=1)
    length, batch, width = x.shape
    if length > 9:
        raise Rejected("large")
    size, gates = m.number(1, 5), GATES[op]
    direction = m.pick(("forward", "reverse", "bidirectional"))
    d = 2 if direction == "bidirectional" else 1
    weights = [m.new((d, gates * size, n), constant=True) for n in (width, size)]
    bias = m.new((d, 2 * gates * size), constant=True) if m.chance(2) else None
    lengths = m.uniform(1, length + 1, (batch,), "int32") if m.chance(4) else None
    states = [m.new((d, batch, size)) if m.chance(2) else None for _ in range(2 if op == "LSTM" else 1)]
    more = [m.new((d, 3 * size), constant=True)] if op == "LSTM" and m.chance(3) else []
    settings: dict[str, Any] = {"linear_before_reset": m.number(0, 1)} if op == "GRU" else {}
    wanted = [True, *(m.chance(2) for _ in range(2 if op == "LSTM" else 1))]
    m.node(op, x, *weights, bias, lengths, *states, *more, outputs=wanted, hidden_size=size, direction=direction,
           **settings)  # fmt: skip
