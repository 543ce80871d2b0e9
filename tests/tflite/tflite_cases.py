"""One small model for every operator and element type it is used with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from flatbuffers import flexbuffers
from small_tflite import File, compressed_rows, options
from tflite_operands import KINDS, const, same_scale

IMAGE = (2, 7, 6, 4)

CASES: dict[str, bytes] = {}


def case(name: str, file: File) -> None:
    assert name not in CASES, name
    CASES[name] = file.content()


def single(
    op: str, shapes: list[tuple[int, ...]], out: tuple[int, ...], option: Any = None, kind: str = "f32",
    label: str = "", extra: Callable[[File], list[int]] = lambda f: [], result: dict[str, Any] | None = None,
    out_type: str | None = None, rescale: float = 1.7, shift: int = 5,
) -> None:  # fmt: skip
    """Activations of ``shapes`` through one operator. Quantized operands and results differ in scale and zero point."""
    dtype, scale, zero = KINDS.get(kind, (kind, None, 0))
    f = File()
    quant = [
        {} if scale is None else {"scale": scale * (1 + 0.3 * k), "zero": zero + 3 * k} for k in range(len(shapes))
    ]
    inputs = [f.main.input(dtype, s, **q) for s, q in zip(shapes, quant)]
    told = {} if scale is None else {"scale": scale * rescale, "zero": zero + shift}
    y = f.main.tensor(out_type or dtype, out, "y", **(told if result is None else result))
    f.main.op(op, [*inputs, *extra(f)], [y], option)
    f.main.output(y)
    case(f"{op}-{kind}{'-' + label if label else ''}", f)


# ---- contractions


def contraction(
    op: str, x: tuple[int, ...], w: tuple[int, ...], out: tuple[int, ...], option: Any, kind: str, label: str,
    channels: int, axis: int, per_channel: bool = False, bias: bool = True,
) -> None:  # fmt: skip
    random = np.random.default_rng(len(CASES))
    f = File()
    dtype, scale, zero = KINDS[kind if kind != "hybrid" else "f32"]
    quant = {} if scale is None else {"scale": scale, "zero": zero}
    xs = f.main.input(dtype, x, **quant)
    if kind == "f32":
        ws = f.main.const(random.standard_normal(w), "f32")
        bs = f.main.const(random.standard_normal(channels), "f32")
        y = f.main.tensor("f32", out, "y")
    else:
        spread = random.uniform(0.01, 0.03, channels) if per_channel else 0.02
        weights = random.integers(-127, 128, w) if kind != "u8" else random.integers(0, 256, w)
        told = {"scale": spread, "zero": 0 if kind != "u8" else 131, "axis": axis}
        ws = f.main.const(weights, "i8" if kind != "u8" else "u8", **told)
        if kind == "hybrid":
            bs = f.main.const(random.standard_normal(channels), "f32")
            y = f.main.tensor("f32", out, "y")
        else:
            units = np.float32(scale) * np.asarray(spread, np.float32)
            bs = f.main.const(random.integers(-3000, 3000, channels), "i32", scale=units, zero=0, axis=0)
            y = f.main.tensor(dtype, out, "y", scale=0.31, zero=zero + 5)
    f.main.op(op, [xs, ws, bs] if bias else [xs, ws], [y], option)
    f.main.output(y)
    case(f"{op}-{kind}-{label}", f)


def conv(**fields: Any) -> Any:
    return options("Conv2D", **{"strideH": 1, "strideW": 1, **fields})


def depthwise(**fields: Any) -> Any:
    return options("DepthwiseConv2D", **{"strideH": 1, "strideW": 1, "depthMultiplier": 1, **fields})


for _kind in ("f32", "i8", "u8"):
    _many = _kind == "i8"
    contraction("CONV_2D", IMAGE, (5, 3, 3, 4), (2, 4, 3, 5), conv(strideH=2, strideW=2), _kind, "same", 5, 0, _many)
    contraction(
        "CONV_2D", IMAGE, (5, 2, 3, 4), (2, 6, 4, 5), conv(padding=1, fusedActivationFunction=1), _kind, "valid", 5, 0
    )
    contraction(
        "CONV_2D", IMAGE, (5, 3, 3, 4), (2, 7, 6, 5),
        conv(dilationHFactor=2, dilationWFactor=3, fusedActivationFunction=3), _kind, "dilated", 5, 0, _many,
    )  # fmt: skip
    contraction("FULLY_CONNECTED", (3, 12), (5, 12), (3, 5), options("FullyConnected"), _kind, "bare", 5, 0, bias=False)
    contraction(
        "DEPTHWISE_CONV_2D", IMAGE, (1, 3, 3, 8), (2, 7, 6, 8),
        depthwise(depthMultiplier=2, fusedActivationFunction=3), _kind, "same", 8, 3, _many,
    )  # fmt: skip
    contraction(
        "DEPTHWISE_CONV_2D", IMAGE, (1, 3, 2, 4), (2, 3, 3, 4), depthwise(strideH=2, strideW=2, padding=1), _kind,
        "valid", 4, 3, _many,
    )  # fmt: skip
    contraction("FULLY_CONNECTED", (3, 12), (5, 12), (3, 5), options("FullyConnected"), _kind, "plain", 5, 0)
    contraction(
        "FULLY_CONNECTED", (2, 3, 12), (5, 12), (2, 3, 5),
        options("FullyConnected", keepNumDims=True, fusedActivationFunction=1), _kind, "kept", 5, 0,
    )  # fmt: skip
contraction("FULLY_CONNECTED", (3, 12), (5, 12), (3, 5), options("FullyConnected"), "i8", "channels", 5, 0, True)
contraction("CONV_2D", IMAGE, (6, 3, 3, 2), (2, 7, 6, 6), conv(), "f32", "groups", 6, 0)
contraction("CONV_2D", IMAGE, (5, 3, 3, 4), (2, 7, 6, 5), conv(), "hybrid", "one", 5, 0)
contraction("CONV_2D", IMAGE, (5, 3, 3, 4), (2, 7, 6, 5), conv(), "hybrid", "channels", 5, 0, True)
contraction("FULLY_CONNECTED", (3, 12), (5, 12), (3, 5), options("FullyConnected"), "hybrid", "symmetric", 5, 0)
contraction(
    "FULLY_CONNECTED", (3, 12), (5, 12), (3, 5), options("FullyConnected", asymmetricQuantizeInputs=True), "hybrid",
    "asymmetric", 5, 0,
)  # fmt: skip


def transposed(kind: str, padding: int, out: tuple[int, ...]) -> None:
    random = np.random.default_rng(5)
    f = File()
    dtype, scale, zero = KINDS[kind]
    x = f.main.input(dtype, (1, 4, 3, 4), **({} if scale is None else {"scale": scale, "zero": zero}))
    if kind == "f32":
        w, y = f.main.const(random.standard_normal((5, 3, 3, 4)), "f32"), f.main.tensor("f32", out, "y")
    else:
        w = f.main.const(random.integers(-127, 128, (5, 3, 3, 4)), "i8", scale=np.full(5, 0.02), zero=0, axis=0)
        y = f.main.tensor(dtype, out, "y", scale=0.2, zero=3)
    shape = f.main.const(out)
    f.main.op("TRANSPOSE_CONV", [shape, w, x], [y], options("TransposeConv", padding=padding, strideH=2, strideW=2))
    f.main.output(y)
    case(f"TRANSPOSE_CONV-{kind}-{'valid' if padding else 'same'}", f)


for _kind in ("f32", "i8"):
    transposed(_kind, 0, (1, 8, 6, 5))
    transposed(_kind, 1, (1, 9, 7, 5))

single("BATCH_MATMUL", [(2, 3, 4), (2, 4, 5)], (2, 3, 5), options("BatchMatMul"))
single("BATCH_MATMUL", [(2, 4, 3), (2, 5, 4)], (2, 3, 5), options("BatchMatMul", adjX=True, adjY=True), label="turned")

# ---- pooling, arithmetic, activations

for _kind in KINDS:
    for _padding, _out in ((0, (2, 4, 3, 4)), (1, (2, 3, 2, 4))):
        _pool = options("Pool2D", padding=_padding, strideH=2, strideW=2, filterHeight=3, filterWidth=3)
        for _op in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
            single(_op, [IMAGE], _out, _pool, _kind, f"{_padding}", result=same_scale(_kind))
    _sums: dict[str, tuple[str, int]] = {"ADD": ("Add", 0), "SUB": ("Sub", 1), "MUL": ("Mul", 3)}
    for _op, (_table, _activation) in _sums.items():
        _option = options(_table, fusedActivationFunction=_activation)
        single(_op, [IMAGE, IMAGE], IMAGE, _option, _kind)
        single(_op, [IMAGE, (1, 1, 4)], IMAGE, options(_table), _kind, "broadcast")
    for _op in ("MAXIMUM", "MINIMUM"):
        single(_op, [(3, 4)] * 2, (3, 4), options("MaximumMinimum"), _kind, result=same_scale(_kind), rescale=1)
    for _op in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
        _table = "".join(word.capitalize() for word in _op.split("_"))
        single(_op, [(30, 4)] * 2, (30, 4), options(_table), _kind, result={}, out_type="bool")
    for _op in ("LOGISTIC", "TANH"):
        _fixed = {"scale": 1 / 256 if _op == "LOGISTIC" else 1 / 128, "zero": 0}
        if _kind == "i8" and _op == "LOGISTIC":
            _fixed["zero"] = -128
        if _kind == "u8" and _op == "TANH":
            _fixed["zero"] = 128
        single(_op, [(5, 40)], (5, 40), None, _kind, result={} if _kind == "f32" else _fixed)
    for _op in ("RELU", "RELU6", "HARD_SWISH"):
        single(_op, [(5, 40)], (5, 40), options("HardSwish") if _op == "HARD_SWISH" else None, _kind)
    single("RELU_N1_TO_1", [(5, 40)], (5, 40), None, _kind)
    single("LEAKY_RELU", [(5, 40)], (5, 40), options("LeakyRelu", alpha=0.2), _kind)
    single("SOFTMAX", [(5, 12)], (5, 12), options("Softmax", beta=1.0), _kind,
           result={} if _kind == "f32" else {"scale": 1 / 256, "zero": -128 if _kind == "i8" else 0})  # fmt: skip
    single("PRELU", [IMAGE, (1, 1, 4)], IMAGE, None, _kind)
    single("DIV", [(3, 4), (3, 4)], (3, 4), options("Div"), "f32" if _kind != "u8" else "u8", f"for-{_kind}")
    single("L2_NORMALIZATION", [(3, 9)], (3, 9), options("L2Norm"), _kind,
           result={} if _kind == "f32" else {"scale": 1 / 128, "zero": 0 if _kind == "i8" else 128})  # fmt: skip
    # movement
    _same = same_scale(_kind)
    single(
        "RESHAPE", [(2, 3, 4)], (4, 6), options("Reshape", newShape=[4, -1]), _kind, extra=const([4, -1]), result=_same
    )
    single("TRANSPOSE", [(2, 3, 4)], (4, 2, 3), options("Transpose"), _kind, extra=const([2, 0, 1]), result=_same)
    single("PAD", [(2, 3, 4)], (3, 5, 9), options("Pad"), _kind, extra=const([[1, 0], [0, 2], [2, 3]]), result=_same)
    single(
        "MIRROR_PAD", [(3, 4)], (5, 7), options("MirrorPad", mode=0), _kind, extra=const([[1, 1], [2, 1]]), result=_same
    )
    single("SLICE", [(3, 4, 5)], (2, 4, 2), options("Slice"), _kind,
           extra=lambda f: [f.main.const([1, 0, 2]), f.main.const([2, -1, 2])], result=_same)  # fmt: skip
    if _kind != "i8":  # the interpreter wants one scale there
        single("CONCATENATION", [(2, 3), (2, 4)], (2, 7), options("Concatenation", axis=-1), _kind)
    single("DEPTH_TO_SPACE", [(1, 3, 2, 8)], (1, 6, 4, 2), options("DepthToSpace", blockSize=2), _kind, result=_same)
    single("SPACE_TO_DEPTH", [(1, 6, 4, 2)], (1, 3, 2, 8), options("SpaceToDepth", blockSize=2), _kind, result=_same)
    single("SPACE_TO_BATCH_ND", [(1, 5, 4, 2)], (4, 3, 3, 2), options("SpaceToBatchND"), _kind,
           extra=lambda f: [f.main.const([2, 2]), f.main.const([[1, 0], [1, 1]])], result=_same)  # fmt: skip
    single("BATCH_TO_SPACE_ND", [(4, 3, 3, 2)], (1, 5, 4, 2), options("BatchToSpaceND"), _kind,
           extra=lambda f: [f.main.const([2, 2]), f.main.const([[1, 0], [1, 1]])], result=_same)  # fmt: skip
    for _centers, _corners in ((False, False), (True, False), (False, True)):
        _label = "centers" if _centers else "corners" if _corners else "plain"
        for _op, _table in (
            ("RESIZE_BILINEAR", "ResizeBilinear"),
            ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighbor"),
        ):
            _option = options(_table, halfPixelCenters=_centers, alignCorners=_corners)
            single(_op, [(1, 5, 4, 3)], (1, 9, 7, 3), _option, _kind, _label, const([9, 7]), _same)
            single(_op, [(1, 9, 8, 3)], (1, 4, 5, 3), _option, _kind, _label + "-less", const([4, 5]), _same)
    # reductions
    single("MEAN", [IMAGE], (2, 4), options("Reducer", keepDims=False), _kind, extra=const([1, 2]))
    single("MEAN", [IMAGE], (2, 1, 1, 4), options("Reducer", keepDims=True), _kind, "kept", const([1, 2]))
    single("MEAN", [(3, 4, 5)], (3, 4), options("Reducer", keepDims=False), _kind, "last", const([-1]))
    single("SUM", [(3, 4, 5)], (3, 5), options("Reducer", keepDims=False), _kind, extra=const([1]), rescale=9)
    for _op in ("REDUCE_MAX", "REDUCE_MIN"):
        single(_op, [(3, 4, 5)], (3, 5), options("Reducer"), _kind, extra=const([1]), result=_same)
    for _op, _table in (("ARG_MAX", "ArgMax"), ("ARG_MIN", "ArgMin")):
        single(_op, [(3, 14)], (3,), options(_table, outputType=2), _kind, extra=const([-1]), result={}, out_type="i32")

single("ELU", [(5, 40)], (5, 40))
single("ELU", [(5, 40)], (5, 40), None, "i8")
single("GELU", [(5, 40)], (5, 40), options("Gelu", approximate=False))
single("GELU", [(5, 40)], (5, 40), options("Gelu", approximate=True), label="tanh")
single("LOG_SOFTMAX", [(5, 12)], (5, 12), options("LogSoftmax"))
single("LOG_SOFTMAX", [(5, 12)], (5, 12), options("LogSoftmax"), "i8", result={"scale": 16 / 256, "zero": 127})
single("L2_POOL_2D", [IMAGE], (2, 4, 3, 4), options("Pool2D", strideH=2, strideW=2, filterHeight=3, filterWidth=3))
single("RELU_0_TO_1", [(5, 40)], (5, 40))
for _op in ("ABS", "NEG", "SIN", "COS", "FLOOR", "CEIL", "ROUND", "SQUARE", "EXP", "SIGN"):
    single(_op, [(5, 9)], (5, 9))
single("ABS", [(5, 9)], (5, 9), None, "i8", result=same_scale("i8"))
single("ADD_N", [(5, 9)] * 3, (5, 9), options("AddN"))
single("SQUARED_DIFFERENCE", [(5, 9), (9,)], (5, 9), options("SquaredDifference"))
single("SQUARED_DIFFERENCE", [(5, 9), (5, 9)], (5, 9), options("SquaredDifference"), "i8", rescale=8.0)
single("FLOOR_DIV", [(5, 9)] * 2, (5, 9), options("FloorDiv"))
single("FLOOR_MOD", [(5, 9)] * 2, (5, 9), options("FloorMod"))
for _op in ("LOGICAL_AND", "LOGICAL_OR"):
    _table = "LogicalAnd" if _op == "LOGICAL_AND" else "LogicalOr"
    single(_op, [(5, 9)] * 2, (5, 9), options(_table), "bool")
single("LOGICAL_NOT", [(5, 9)], (5, 9), options("LogicalNot"), "bool")
for _op, _reduced in (("REDUCE_ANY", "bool"), ("REDUCE_ALL", "bool"), ("REDUCE_PROD", "f32")):
    single(_op, [(3, 4)], (3,), options("Reducer"), _reduced, extra=const([1]))
single("CUMSUM", [(3, 4)], (3, 4), options("Cumsum", exclusive=True, reverse=True), extra=const(1))
single("SQUEEZE", [(1, 3, 1, 4)], (3, 1, 4), options("Squeeze", squeezeDims=[0]))
single("EXPAND_DIMS", [(3, 4)], (3, 1, 4), options("ExpandDims"), extra=const([1]))
single("PACK", [(3, 4)] * 3, (3, 3, 4), options("Pack", axis=1, valuesCount=3))
single("TILE", [(3, 4)], (6, 12), options("Tile"), extra=const([2, 3]))
single("BROADCAST_TO", [(3, 1)], (2, 3, 4), options("BroadcastTo"), extra=const([2, 3, 4]))
single("REVERSE_V2", [(3, 4)], (3, 4), options("ReverseV2"), extra=const([1]))
single("GATHER", [(3, 4)], (3, 2), options("Gather", axis=1), extra=const([3, 0]))
single("GATHER_ND", [(3, 4)], (2,), options("GatherNd"), extra=const([[2, 1], [0, 3]]))
single("ZEROS_LIKE", [(3, 4)], (3, 4), options("ZerosLike"))
single(
    "PADV2",
    [(3, 4)],
    (4, 5),
    options("PadV2"),
    extra=lambda f: [f.main.const([[1, 0], [0, 1]]), f.main.const(3.5, "f32")],
)
single("CAST", [(3, 4)], (3, 4), options("Cast", inDataType=0, outDataType=2), out_type="i32")
single("CAST", [(3, 4)], (3, 4), options("Cast", inDataType=2, outDataType=0), "i32", out_type="f32")
single(
    "QUANTIZE", [(5, 40)], (5, 40), options("Quantize"), "f32", "i8", result={"scale": 0.03, "zero": 4}, out_type="i8"
)
single(
    "QUANTIZE", [(5, 40)], (5, 40), options("Quantize"), "f32", "u8", result={"scale": 0.03, "zero": 99}, out_type="u8"
)
single("QUANTIZE", [(5, 40)], (5, 40), options("Quantize"), "i8", "i8")
single(
    "QUANTIZE", [(5, 40)], (5, 40), options("Quantize"), "i8", "u8", result={"scale": 0.06, "zero": 99}, out_type="u8"
)
single("DEQUANTIZE", [(5, 40)], (5, 40), options("Dequantize"), "i8", result={}, out_type="f32")
single("DEQUANTIZE", [(5, 40)], (5, 40), options("Dequantize"), "u8", result={}, out_type="f32")
single("ONE_HOT", [(6,)], (6, 5), options("OneHot", axis=-1), "i32", out_type="f32",
       extra=lambda f: [f.main.const(5), f.main.const(2.5, "f32"), f.main.const(-1.0, "f32")])  # fmt: skip


def strided(
    label: str, begin: list[int], end: list[int], strides: list[int], out: tuple[int, ...], **masks: int
) -> None:
    single("STRIDED_SLICE", [(4, 5, 6)], out, options("StridedSlice", **masks), label=label,
           extra=lambda f: [f.main.const(begin), f.main.const(end), f.main.const(strides)])  # fmt: skip


strided("plain", [1, 0, -3], [4, 5, 6], [2, 1, 2], (2, 5, 2))
strided("backwards", [3, 4, 5], [0, 0, 1], [-1, -2, -3], (3, 2, 2))
strided("open", [1, 1, 1], [2, 2, 2], [1, 1, 1], (4, 1, 5), beginMask=1, endMask=5)
strided("shrunk", [1, 0, -1], [2, 5, 0], [1, 2, 1], (3,), shrinkAxisMask=5)
strided("ellipsis", [0, 1], [0, 3], [1, 1], (4, 5, 2), ellipsisMask=1)


def several(
    op: str, x: tuple[int, ...], outs: list[tuple[int, ...]], option: Any, before: Any = None, after: Any = ()
) -> None:
    """Operators of several results."""
    f = File()
    first = [f.main.const(before)] if before is not None else []
    inputs = [*first, f.main.input("f32", x), *(f.main.const(v) for v in after)]
    results = [f.main.tensor("f32", s, f"y{k}") for k, s in enumerate(outs)]
    f.main.op(op, inputs, results, option)
    f.main.output(*results)
    case(f"{op}-f32", f)


several("SPLIT", (4, 6), [(4, 2)] * 3, options("Split", numSplits=3), before=1)
several("SPLIT_V", (4, 6), [(4, 1), (4, 5)], options("SplitV", numSplits=2), after=([1, -1], 1))
several("UNPACK", (3, 4), [(3,)] * 4, options("Unpack", num=4, axis=1))


def chosen(op: str, condition: tuple[int, ...]) -> None:
    f = File()
    inputs = [f.main.input("bool", condition), f.main.input("f32", (3, 4)), f.main.input("f32", (3, 4))]
    y = f.main.tensor("f32", (3, 4), "y")
    f.main.op(op, inputs, [y], options("Select" if op == "SELECT" else "SelectV2"))
    f.main.output(y)
    case(f"{op}-f32", f)


chosen("SELECT", (3,))
chosen("SELECT_V2", (1, 4))


def top_k() -> None:
    f = File()
    inputs = [f.main.input("f32", (3, 9)), f.main.const(4)]
    results = [f.main.tensor("f32", (3, 4), "values"), f.main.tensor("i32", (3, 4), "places")]
    f.main.op("TOPK_V2", inputs, results, options("TopKV2"))
    f.main.output(*results)
    case("TOPK_V2-f32", f)


top_k()


def positive(op: str, option: Any = None) -> None:
    """Of absolute values."""
    f = File()
    x, size, y = f.main.input("f32", (5, 9)), f.main.tensor("f32", (5, 9)), f.main.tensor("f32", (5, 9), "y")
    f.main.op("ABS", [x], [size], options("Abs"))
    f.main.op(op, [size, x] if op == "POW" else [size], [y], option)
    f.main.output(y)
    case(f"{op}-f32", f)


positive("SQRT")
positive("RSQRT")
positive("LOG")
positive("POW", options("Pow"))
single("BITWISE_XOR", [(5, 9)] * 2, (5, 9), options("BitwiseXor"), "i32")
single("RIGHT_SHIFT", [(5, 9)] * 2, (5, 9), options("RightShift"), "i32")
single("SHAPE", [(5, 9)], (2,), options("Shape", outType=2), out_type="i32")
single("RANK", [(5, 9)], (), options("Rank"), out_type="i32")
single("FAKE_QUANT", [(5, 9)], (5, 9), options("FakeQuant", min=-1.5, max=2.0, numBits=8))


def of_constants(op: str, out: str, shape: tuple[int, ...], values: list[tuple[Any, str]], option: Any) -> None:
    """An operator of constants, added to an input."""
    f = File()
    x, made, y = f.main.input(out, shape), f.main.tensor(out, shape), f.main.tensor(out, shape, "y")
    f.main.op(op, [f.main.const(v, t) for v, t in values], [made], option)
    f.main.op("ADD", [x, made], [y], options("Add"))
    f.main.output(y)
    case(f"{op}-{out}", f)


of_constants("FILL", "f32", (2, 3), [([2, 3], "i32"), (1.5, "f32")], options("Fill"))
of_constants("RANGE", "i32", (4,), [(1, "i32"), (9, "i32"), (2, "i32")], options("Range"))
_TABLE = np.arange(12).reshape(4, 3)
of_constants("EMBEDDING_LOOKUP", "f32", (2, 3), [([3, 1], "i32"), (_TABLE, "f32")], None)
_SCATTERED = [([[1], [3]], "i32"), ([2.0, 5.0], "f32"), ([5], "i32")]
of_constants("SCATTER_ND", "f32", (5,), _SCATTERED, options("ScatterNd"))


def detection(label: str, threshold: float, **more: Any) -> None:
    """Boxes around a grid of anchors, three classes and the background."""
    f = File()
    y, x = np.divmod(np.arange(36), 6)
    anchors = np.stack([(y + 0.5) / 6, (x + 0.5) / 6, np.full(36, 0.3), np.full(36, 0.25)], 1)
    inputs = [f.main.input("f32", (1, 36, 4)), f.main.input("f32", (1, 36, 4)), f.main.const(anchors, "f32")]
    shapes = {"boxes": (1, 10, 4), "classes": (1, 10), "scores": (1, 10), "number": (1,)}
    results = [f.main.tensor("f32", shape, name) for name, shape in shapes.items()]
    told = {
        "max_detections": 10, "max_classes_per_detection": 1, "nms_score_threshold": threshold,
        "nms_iou_threshold": 0.4, "num_classes": 3, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
        "use_regular_nms": False, **more,
    }  # fmt: skip
    f.main.op("TFLite_Detection_PostProcess", inputs, results, custom=bytes(flexbuffers.Dumps(told)))
    f.main.output(*results)
    case(f"TFLite_Detection_PostProcess-f32-{label}", f)


def sparse() -> None:
    """[4, 4] weights in compressed rows."""
    f, shape = File(), (4, 4)
    x, y, w, dense = f.main.input("f32", shape), *(f.main.tensor("f32", shape, *name) for name in (["y"], [], []))
    tensor = f.main.proto.tensors[w]
    tensor.buffer = f.buffer(np.array([1.5, -2, 3, 4.25, 5], np.float32).tobytes())
    tensor.sparsity = compressed_rows([0, 2, 2, 3, 5], [0, 3, 1, 0, 2])
    f.main.op("DENSIFY", [w], [dense], options("Densify"))
    f.main.op("ADD", [x, dense], [y], options("Add"))
    f.main.output(y)
    case("DENSIFY-f32", f)


detection("many", -5.0)
detection("few", 1.6)
sparse()
