"""Attributes and operands at the ends of their ranges: the last one that is taken, and the first that is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from refused_models import refusal
from small_models import model, node, tensor_input, weights

from edgec.frontend.onnx import import_model

Shape = tuple[Any, ...]
INT64, ML, MICROSOFT = TensorProto.INT64, "ai.onnx.ml", "com.microsoft"


def of(
    operator: str, *operands: Shape | np.ndarray | None, opset: int = 17, domain: str = "", outputs: int = 1,
    dtype: int = TensorProto.FLOAT, **attributes: Any,
) -> onnx.ModelProto:  # fmt: skip
    """A node of inputs (shapes), constants (arrays) and absent operands."""
    names = ["" if x is None else f"x{k}" for k, x in enumerate(operands)]
    given = [tensor_input(n, x, dtype) for n, x in zip(names, operands) if isinstance(x, tuple)]
    held = [weights(n, x) for n, x in zip(names, operands) if isinstance(x, np.ndarray)]
    results = [f"y{k}" for k in range(outputs)]
    made = node(operator, names, results, name="n", domain=domain, **attributes)
    found = model([made], given, results, held, opset, [domain] if domain else [])
    for entry in found.opset_import:
        entry.version = 3 if entry.domain == ML else entry.version
    return found


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def scalar(number: float, dtype: Any = np.int64) -> np.ndarray:
    return np.array(number, dtype)


IMAGE, KERNEL = (1, 2, 5, 6), np.ones((4, 2, 3, 2), np.float32)
#: What is made of a value, values that are taken, and those that are refused with a part of what is said.
CASES: dict[str, tuple[Any, tuple[Any, ...], tuple[tuple[Any, str], ...]]] = {
    "shape": (
        lambda s: of("Reshape", (2, 6), ints(*s)), ((3, 4), (-1, 4), (0, -1), (2, 0), (1, 12)),
        (((-1, -1), "is no shape"), ((-2, 6), "is no shape"), ((-1, 5), "does not fit"), ((5,), "reshape")),
    ),
    "axis of Flatten": (
        lambda a: of("Flatten", (2, 3), axis=a), (-2, -1, 0, 1, 2), ((-3, "axis -3"), (3, "axis 3 of a tensor of 2")),
    ),
    "repeats": (
        lambda r: of("Tile", (2, 3), ints(*r)), ((1, 1), (0, 2), (2, 0)),
        (((1,), "do not fit"), ((1, 1, 1), "do not fit"), ((-1, 1), "do not fit")),
    ),
    "outputs of Split": (
        lambda n: of("Split", (7, 3), opset=18, outputs=n, num_outputs=3), (3,), ((2, "num_outputs is 3"),),
    ),
    "parts": (
        lambda s: of("Split", (7, 3), ints(*s), outputs=2), ((3, 4), (7, 0), (0, 7)),
        (((3, 3), "do not make up"), ((4, 4), "do not make up"), ((-1, 8), "do not make up")),
    ),
    "pads": (
        lambda p: of("Pad", (2, 3), ints(*p)), ((0, 0, 0, 0), (-2, 0, 0, 0), (0, -1, 0, -2), (1, -3, 0, 0)),
        (((0, 0), "2 pads for 2"), ((-3, 0, 0, 0), "cut off"), ((0, -2, 0, -2), "cut off"), ((0,) * 6, "6 pads")),
    ),
    "padded by others": (
        lambda given: of("Pad", given[0], ints(1, 2), mode=given[1]),
        (((1,), "edge"), ((2,), "reflect"), ((1,), "reflect"), ((3,), "edge")),
        ((((0,), "edge"), "0 elements"), (((0,), "reflect"), "0 elements"), (((3,), "other"), "unknown")),
    ),
    "padded by others, open": (
        lambda given: of("Pad", (f"{given[2]}",), ints(*given[1]), mode=given[0]), (), (),
    ),
    "block": (
        lambda b: of("DepthToSpace", (1, 8, 2, 2), blocksize=b), (1, 2), ((0, "blocks of 0"), (-1, "blocks of -1"),
                                                                          (3, "")),
    ),
    "block of SpaceToDepth": (
        lambda b: of("SpaceToDepth", (1, 1, 4, 6), blocksize=b), (1, 2), ((0, "blocks of 0"), (4, "")),
    ),
    "positions": (
        lambda p: of("Gather", (3, 2), ints(*p)), ((-3, 2), (0,), ()), (((3,), "outside"), ((-4,), "outside"),
                                                                          ((0, 3), "0 .. 3")),
    ),
    "elements of TopK": (
        lambda k: of("TopK", (2, 3), ints(k), outputs=2), (0, 1, 3), ((4, "only 3"), (-1, "first -1")),
    ),
    "size of a determinant": (
        lambda s: of("Det", s), ((1, 1), (4, 4), (2, 3, 3)), (((5, 5), "4 x 4"), ((2, 3), "4 x 4")),
    ),
    "kernel": (
        lambda k: of("MaxPool", IMAGE, kernel_shape=k), ((1, 1), (5, 6), (6, 6), (5, 7)),
        (((7, 1), "over 7"), ((1, 8), "over 8"), ((2,), "does not fit 2"), ((2, 0), "no elements"),
         ((1, 1, 1), "does not fit 2")),
    ),
    "strides": (
        lambda s: of("AveragePool", IMAGE, kernel_shape=[2, 2], strides=s), ((1, 1), (9, 1)),
        (((1,), "strides"), ((0, 1), "strides"), ((1, 1, 1), "strides")),
    ),
    "dilations": (
        lambda d: of("Conv", IMAGE, KERNEL, dilations=d), ((2, 5), (1, 1)),
        (((3, 1), "over 7 elements of 5"), ((1, 6), "over 7 elements of 6"), ((0, 1), "dilations")),
    ),
    "pads of a pool": (
        lambda p: of("MaxPool", IMAGE, kernel_shape=[2, 3], pads=p), ((1, 2, 1, 2), (0, 0, 0, 0), (0, 2, 1, 0)),
        (((2, 0, 0, 0), "as large as the kernel"), ((0, 3, 0, 0), "as large as"), ((0, 0, 2, 0), "as large as"),
         ((0, 0, 0, 3), "as large as"), ((-1, 0, 0, 0), "pads"), ((0, 0), "pads")),
    ),
    "pads of a convolution": (
        lambda p: of("Conv", (1, 2, 1, 1), KERNEL, pads=p), ((1, 1, 1, 0), (0, 0, 2, 1), (5, 5, 5, 5)),
        (((0, 1, 1, 0), "over 3 elements of 2"), ((1, 0, 1, 0), "over 2 elements of 1"), ((1, 1), "pads")),
    ),
    "kernel that weights repeat": (
        lambda k: of("Conv", IMAGE, KERNEL, kernel_shape=k), ((3, 2),), (((2, 3), "differs"), ((3,), "differs")),
    ),
    "dimensions of a convolution": (
        lambda s: of("Conv", s, KERNEL), ((2, 2, 3, 2),), (((2, 2), "convolution of"), ((2, 2, 3), "convolution of"),
                                                           ((1, 3, 5, 5), "3 channels")),
    ),
    "groups": (
        lambda g: of("Conv", (1, 4, 5, 5), KERNEL, group=g), (2,), ((1, ""), (0, ""), (3, ""), (-2, "")),
    ),
    "output padding": (
        lambda p: of("ConvTranspose", IMAGE, np.ones((2, 3, 2, 2), np.float32), strides=[2, 1], dilations=[1, 3],
                     output_padding=p),
        ((0, 0), (1, 2)), (((2, 0), "output_padding"), ((0, 3), "output_padding"), ((-1, 0), "output_padding"),
                           ((0,), "output_padding")),
    ),
    "frames": (
        lambda given: of("STFT", (1, 10), scalar(given[0]), None, scalar(given[1])), ((1, 1), (3, 10), (20, 4)),
        (((0, 4), "in steps of 0"), ((1, 11), "frames of 11"), ((1, 0), "frames of 0")),
    ),
    "bands": (
        lambda given: of("MelWeightMatrix", *map(scalar, given[:3]), scalar(0.0, np.float32),
                         scalar(given[3], np.float32)),
        ((1, 1, 1, 0.4), (4, 16, 100, 50.0)),
        (((0, 16, 100, 50.0), "0 bands"), ((4, 0, 100, 50.0), "length 0"), ((4, 16, 0, 50.0), "at 0 samples")),
    ),
    "transformed dimension": (
        lambda a: of("DFT", (2, 4, 3, 1), axis=a), (0, 1, 2, -2), ((3, "cannot be transformed"), (-1, "cannot be"),
                                                                   (4, "axis 4")),
    ),
    "length of a transform": (
        lambda n: of("DFT", (2, 4, 1), scalar(n)), (1, 4, 9), ((0, "length 0"), (-1, "length -1")),
    ),
    "matrices of a grid": (
        lambda given: of("AffineGrid", given[0], ints(*given[1]), opset=20),
        (((2, 2, 3), (2, 1, 4, 5)), ((1, 3, 4), (1, 1, 2, 3, 4))),
        ((((2, 2, 3), (2, 1, 4)), "do not fit"), (((2, 3, 4), (2, 1, 4, 5)), "do not fit"),
         (((2, 2, 2), (2, 1, 4, 5)), "do not fit"), (((2, 3), (2, 1, 4, 5)), "do not fit"),
         (((1, 4, 5), (1, 1, 2, 2, 2, 2)), "do not fit")),
    ),
    "samples of a region": (
        lambda given: of("RoiAlign", IMAGE, (3, 4), ints(0, 0, 0), sampling_ratio=given[0], mode=given[1]),
        ((1, "max"), (1, "avg"), (0, "avg")), (((0, "max"), "sampling_ratio"), ((-1, "max"), "sampling_ratio")),
    ),
    "regions": (
        lambda given: of("MaxRoiPool", IMAGE, given[0], pooled_shape=[2, 2], spatial_scale=given[1]),
        ((np.zeros((1, 5), np.float32), 1.0), (np.zeros((3, 5), np.float32), 1e-6)),
        (((np.zeros((1, 4), np.float32), 1.0), "regions"), ((np.zeros(5, np.float32), 1.0), "regions"),
         ((np.zeros((1, 5), np.float32), 0.0), "scale 0.0"), ((np.zeros((1, 5), np.float32), -1.0), "scale -1.0")),
    ),
    "scales": (
        lambda s: of("Resize", (1, 1, 4, 4), None, np.float32(s)), ((1, 1, 2, 0.5), (1, 1, 1e-3, 1)),
        (((1, 1, 0, 1), "above 0"), ((1, 1, -1, 1), "above 0"), ((1, 1, np.inf, 1), "above 0"),
         ((1, 1, np.nan, 1), "above 0"), ((1, 1), "2 scales for 4"), ((1,) * 5, "5 scales for 4")),
    ),
    "sizes": (
        lambda s: of("Resize", (1, 1, 4, 4), None, None, ints(*s)), ((1, 1, 1, 9),),
        (((1, 1, 0, 4), "1 or more"), ((1, 1, 4, -1), "1 or more"), ((1, 1, 4), "for 4 dimensions")),
    ),
    "way of resizing": (
        lambda m: of("Resize", (1, 1, 4, 4), None, np.float32([1, 1, 2, 2]), mode=m), ("nearest", "linear", "cubic"),
        (("other", "'other'"),),
    ),
    "coordinates": (
        lambda m: of("Resize", (1, 1, 4, 4), None, np.float32([1, 1, 2, 2]), mode="linear",
                     coordinate_transformation_mode=m),
        ("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"), (("other", "'other'"),),
    ),
    "rows, ends, axes and steps": (
        lambda given: of("Slice", (4, 4), *(ints(*g) for g in given)),
        (((0,), (2,), (1,), (1,)), ((0, 1), (2, 2), (0, 1), (-1, 2))),
        ((((0, 1), (2,), (0,), (1,)), "starts, ends"), (((0,), (2, 2), (0,), (1,)), "starts, ends"),
         (((0,), (2,), (0, 1), (1,)), "starts, ends"), (((0,), (2,), (0,), (1, 1)), "starts, ends"),
         (((0,), (2,), (0,), (0,)), "step is 0"), (((0,), (2,), (2,), (1,)), "axis 2")),
    ),
    "norm": (
        lambda p: of("LpNormalization", (2, 3), p=p), (1, 2), ((0, "p = 0"), (3, "p = 3")),
    ),
    "neighbors": (
        lambda s: of("LRN", IMAGE, size=s), (1, 2, 3, 9), ((0, "over 0 channels"), (-1, "over -1 channels")),
    ),
    "groups of channels": (
        lambda g: of("GroupNormalization", (1, 6, 4), np.ones(6, np.float32), np.ones(6, np.float32), opset=21,
                     num_groups=g),
        (1, 2, 3, 6), ((4, "do not fall into 4"), (0, "do not fall into 0"), (-2, "into -2")),
    ),
    "share that drops": (
        lambda r: of("Dropout", (2, 3), scalar(r, np.float32), scalar(True, np.bool_)), (0.0, 0.5),
        ((1.0, "a dropout of 1"), (-0.5, "a dropout of -0.5"), (np.nan, "a dropout of nan")),
    ),
    "boxes of a class": (
        lambda n: of("NonMaxSuppression", (1, 4, 4), (1, 2, 4), ints(*n)),
        ((0,), (3,), (9,)),
        (((1, 2), "'n'"),),
    ),
    "depth": (
        lambda d: of("OneHot", ints(0, 1), scalar(d), np.float32([0, 1])), (0, 1, 5), ((-1, "depth of -1"),),
    ),
    "filled shape": (
        lambda s: of("ConstantOfShape", ints(*s)), ((), (0, 2), (3,)), (((-1,), "negative"), ((2, -3), "negative")),
    ),
    "range": (
        lambda given: of("Range", *(np.asarray(g, np.float32) for g in given)),
        ((0, 3, 1), (3, 0, -1), (0, 3, -1), ([0], 3, 1)),
        (((0, 3, 0), "step is 0"), ((0, [3, 4], 1), "scalars"), ((0, 1e30, 1), "too large"),
         ((0, np.inf, 1), "too large"), ((0, np.nan, 1), ""), ((0, 1, np.nan), "")),
    ),
    "pieces": (
        lambda s: of("SplitToSequence", (7, 2), np.asarray(s, np.int64)), (1, 3, 7, 9, [3, 4], [7, 0]),
        ((0, "pieces of 0"), (-1, "pieces of -1"), ([3, 3], "do not make up 7"), ([8, -1], "do not make up 7")),
    ),
    "equation": (
        lambda given: of("Einsum", *given[1:], equation=given[0]),
        (("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk->ik", (2, 1), (3, 4)), ("ij->ji", (2, 3))),
        ((("ij,jk->ik", (2, 3)), "2 terms for 1"), (("ij,jk->ik", (2, 3), (4, 5)), "'j'"),
         (("ij->ij", (2, 3), (3, 4)), "1 terms for 2"), (("ijk->ij", (2, 3)), "")),
    ),
    "rows of heads": (
        lambda w: of("GroupQueryAttention", (1, 2, w), None, None, None, None, np.int32([1]), np.array(2, np.int32),
                     domain=MICROSOFT, outputs=3, num_heads=4, kv_num_heads=2),
        (8, 16), ((7, "rows of 7"), (15, "rows of 15"), (9, "rows of 9")),
    ),
    "heads of keys": (
        lambda g: of("GroupQueryAttention", (1, 2, 4 * (6 + 2 * max(g, 1))), None, None, None, None, np.int32([1]),
                     np.array(2, np.int32), domain=MICROSOFT, outputs=3, num_heads=6, kv_num_heads=g),
        (1, 2, 3, 6), ((4, "6 heads"), (0, "6 heads"), (-1, "6 heads")),
    ),
    "last key": (
        lambda n: of("GroupQueryAttention", (1, 2, 16), None, None, None, None, np.int32([n]), np.array(2, np.int32),
                     domain=MICROSOFT, outputs=3, num_heads=4, kv_num_heads=2),
        (0, 1), ((2, "last key"), (-1, "last key")),
    ),
    "bits of weights": (
        lambda b: of("MatMulNBits", (2, 32), np.zeros((3, 1, 4 * b), np.uint8), np.ones(3, np.float32),
                     domain=MICROSOFT, N=3, K=32, bits=b, block_size=32),
        (2, 4, 8), ((3, "3 bits"), (1, "1 bits"), (16, "16 bits")),
    ),
    "metric": (
        lambda m: of("CDist", (2, 3), (4, 3), domain=MICROSOFT, metric=m), ("euclidean", "sqeuclidean"),
        (("cosine", "cosine"),),
    ),
    "dimensions of a mask": (
        lambda s: of("Attention", (2, 3, 8), (8, 24), (24,), s, domain=MICROSOFT, num_heads=2), (), (),
    ),
    "type that is quantized to": (
        lambda t: of("QuantizeLinear", (2, 3), scalar(0.5, np.float32), scalar(0, t)),
        (np.uint8, np.int8), ((np.float32, ""),),
    ),
    "scales of channels": (
        lambda n: of("QuantizeLinear", (2, 3), np.ones(n, np.float32), np.zeros(n, np.uint8), axis=1), (1, 3),
        ((2, "2] scales for dimension 1"), (4, "4] scales")),
    ),
    "axis of a dimension alone": (
        lambda a: of("QuantizeLinear", (3,), np.ones(3, np.float32), np.zeros(3, np.uint8), axis=a), (-1, 0, 1, 2),
        (),
    ),
}  # fmt: skip
TAKEN = [(name, value) for name, (_, values, _) in CASES.items() for value in values]
REFUSED = [(name, value, said) for name, (_, _, values) in CASES.items() for value, said in values]


@pytest.mark.parametrize(("name", "value"), TAKEN, ids=str)
def test_what_is_taken(name: str, value: Any) -> None:
    import_model(CASES[name][0](value))


@pytest.mark.parametrize(("name", "value", "said"), REFUSED, ids=str)
def test_what_is_refused(name: str, value: Any, said: str) -> None:
    told = refusal(CASES[name][0](value))
    assert said in told and "'n'" in told
