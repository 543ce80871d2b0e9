"""Small networks that reach every kernel for WebGPU, as ONNX models, and the values their inputs may have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto
from small_models import model, node, tensor_input, weights

#: (name, model, ranges of integer inputs: from, to)
Case = tuple[str, onnx.ModelProto, Mapping[str, tuple[int, int]]]
_INT64, _INT32, _UINT8, _BOOL = TensorProto.INT64, TensorProto.INT32, TensorProto.UINT8, TensorProto.BOOL
_UNARY = (
    "Exp", "Tanh", "Erf", "Sigmoid", "Floor", "Ceil", "Round", "Abs", "Sin", "Cos", "Tan", "Softplus", "Relu", "Sign",
    "Elu", "HardSwish", "Mish", "Atan", "Sinh", "Cosh",
)  # fmt: skip
_RANDOM = np.random.default_rng(5)


def _drawn(name: str, *shape: int) -> onnx.TensorProto:
    return weights(name, (_RANDOM.standard_normal(shape) * 0.3).astype(np.float32))


def _numbers(name: str, *values: int) -> onnx.TensorProto:
    return weights(name, np.array(values))


def _net(nodes: Sequence[Any], inputs: Sequence[Any], constants: Sequence[Any] = (), outputs: str = "") -> Any:
    """A model whose outputs are all results, or those that are named."""
    return model(nodes, inputs, outputs.split() or [o for n in nodes for o in n.output], constants, opset=18)


def small() -> Iterator[Case]:
    """Operators of each kind, several to a model."""
    picture = tensor_input("x", [2, 6, 10, 12])
    yield "elements", _net([node(op, ["x"], [op]) for op in _UNARY], [tensor_input("x", [3, 17])]), {}
    for width in (16, 17):  # vectors, and one by one
        yield (
            f"domains of {width}",
            _net(
                [
                    node("Log", ["x"], ["log"]), node("Sqrt", ["x"], ["sqrt"]), node("Pow", ["x", "z"], ["power"]),
                    node("Acosh", ["x"], ["acosh"]), node("Asin", ["x"], ["asin"]), node("Acos", ["x"], ["acos"]),
                    node("Mod", ["x", "z"], ["mod"], fmod=1), node("IsNaN", ["log"], ["none"]),
                    node("Where", ["none", "z", "log"], ["some"]), node("PRelu", ["x", "slope"], ["prelu"]),
                    node("Less", ["x", "z"], ["less"]), node("Max", ["x", "z"], ["max"]),
                ],
                [tensor_input("x", [3, 1, width]), tensor_input("z", [2, 1])],
                [_drawn("slope", width)],
            ),
            {},
        )  # fmt: skip
    yield (
        "reductions",
        _net(
            [
                node("ReduceMean", ["x", "two"], ["mean"]), node("ReduceMax", ["x", "one"], ["most"]),
                node("ReduceSum", ["x", "both"], ["sum"]), node("ArgMax", ["x"], ["where"], axis=1),
                node("ReduceLogSumExp", ["z", "one"], ["soft"]), node("ReduceProd", ["x", "three"], ["product"]),
                node("Softmax", ["x"], ["softmax"]), node("LogSoftmax", ["z"], ["log_softmax"]),
                node("LayerNormalization", ["z", "scale"], ["layer"]), node("LRN", ["x"], ["lrn"], size=3),
                node("InstanceNormalization", ["x", "six", "six"], ["instance"]),
            ],
            [picture, tensor_input("z", [40, 200])],
            [_numbers("one", 1), _numbers("two", 2, 3), _numbers("both", 1, 3), _numbers("three", 3),
             _drawn("scale", 200), _drawn("six", 6)],
        ),
        {},
    )  # fmt: skip
    yield (
        "windows",
        _net(
            [
                node("MaxPool", ["x"], ["most"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
                node("AveragePool", ["x"], ["mean"], kernel_shape=[2, 3], strides=[2, 1], ceil_mode=1),
                node("Conv", ["x", "dense", "bias"], ["a"], pads=[1, 1, 1, 1]), node("Relu", ["a"], ["dense_out"]),
                node("Conv", ["x", "deep"], ["depthwise"], group=6, strides=[2, 2], dilations=[2, 2]),
                node("Conv", ["x", "grouped"], ["groups"], group=2),
                node("ConvTranspose", ["x", "back"], ["turned"], strides=[2, 2], pads=[1, 0, 1, 0]),
                node("Resize", ["x", "", "scales"], ["nearest"], mode="nearest"),
                node("Resize", ["x", "", "", "sizes"], ["linear"], mode="linear"),
            ],
            [picture],
            [_drawn("dense", 7, 6, 3, 3), _drawn("bias", 7), _drawn("deep", 6, 1, 3, 3), _drawn("grouped", 4, 3, 1, 1),
             _drawn("back", 6, 5, 3, 3), weights("scales", np.array([1, 1, 2, 1.5], np.float32)),
             _numbers("sizes", 2, 6, 7, 19)],
            "most mean dense_out depthwise groups turned nearest linear",
        ),
        {},
    )  # fmt: skip
    yield (
        "products",
        _net(
            [
                node("MatMul", ["x", "w"], ["constant"]), node("MatMul", ["x", "z"], ["computed"]),
                node("Gemm", ["v", "g", "bias"], ["row"], transB=1), node("MatMul", ["long", "tall"], ["parts"]),
            ],
            [tensor_input("x", [3, 9, 33]), tensor_input("z", [3, 33, 7]), tensor_input("v", [1, 40]),
             tensor_input("long", [8, 2000])],
            [_drawn("w", 33, 70), _drawn("g", 21, 40), _drawn("bias", 21), _drawn("tall", 2000, 6)],
        ),
        {},
    )  # fmt: skip
    yield (
        "movement",
        _net(
            [
                node("Transpose", ["x"], ["turned"], perm=[0, 3, 1, 2]), node("Tile", ["x", "times"], ["tiled"]),
                node("Slice", ["x", "from", "to", "axes", "steps"], ["sliced"]),
                node("Concat", ["x", "x"], ["twice"], axis=1), node("Pad", ["x", "pads"], ["padded"], mode="reflect"),
                node("Reshape", ["x", "flat"], ["reshaped"]), node("Gather", ["x", "k"], ["gathered"], axis=2),
                node("GatherElements", ["t", "j"], ["elements"], axis=1),
            ],
            [picture, tensor_input("k", [3, 4], _INT64), tensor_input("t", [5, 8]), tensor_input("j", [5, 2], _INT64)],
            [_numbers("from", 1, 9), _numbers("to", 5, -100), _numbers("axes", 1, 2), _numbers("steps", 2, -3),
             _numbers("pads", 0, 0, 1, 2, 0, 0, 2, 1), _numbers("times", 1, 2, 1, 3), _numbers("flat", 12, -1)],
        ),
        {"k": (-10, 10), "j": (0, 8)},
    )  # fmt: skip
    yield (
        "integers",
        _net(
            [
                node("Add", ["i", "k"], ["sum"]), node("Div", ["i", "k"], ["div"]), node("Mod", ["i", "k"], ["mod"]),
                node("Cast", ["f"], ["narrow"], to=TensorProto.INT8), node("Cast", ["u"], ["wide"], to=1),
                node("Cast", ["i"], ["byte"], to=_UINT8), node("Cast", ["byte"], ["of_byte"], to=1),
                node("Cast", ["f"], ["truth"], to=_BOOL), node("Not", ["b"], ["not"]), node("And", ["b", "c"], ["and"]),
                node("Cast", ["b"], ["number"], to=_INT64), node("Equal", ["i", "k"], ["equal"]),
            ],
            [tensor_input("i", [4, 5], _INT32), tensor_input("k", [4, 5], _INT32), tensor_input("f", [4, 5]),
             tensor_input("u", [3], _UINT8), tensor_input("b", [9], _BOOL), tensor_input("c", [9], _BOOL)],
        ),
        {"i": (-100, 100), "k": (1, 9), "u": (0, 256)},
    )  # fmt: skip


def transformer(layers: int = 2, tokens: int = 12, width: int = 32, heads: int = 4) -> onnx.ModelProto:
    """An encoder of token numbers: embeddings, attention with a mask, layers with GELU, the scores of three classes."""
    constants = [_drawn("table", 50, width), _drawn("places", tokens, width), _drawn("classes", width, 3)]
    constants += [_numbers("apart", 1, tokens, heads, width // heads), _numbers("together", 1, tokens, width)]
    constants += [weights("root", np.float32((width // heads) ** -0.5)), weights("half", np.float32(0.5)),
                  weights("two", np.float32(2**-0.5)), weights("one", np.float32(1)),
                  weights("least", np.float32(-1e4)),
                  _numbers("axis", 1)]  # fmt: skip
    nodes = [
        node("Gather", ["table", "ids"], ["looked"]), node("Add", ["looked", "places"], ["h0"]),
        node("Cast", ["mask"], ["seen"], to=1), node("Sub", ["one", "seen"], ["hidden"]),
        node("Mul", ["hidden", "least"], ["bias"]),
    ]  # fmt: skip
    for k in range(layers):
        n = f"l{k}_"
        constants += [_drawn(f"{n}{w}", width, width) for w in "qkvo"]
        constants += [_drawn(f"{n}up", width, 4 * width), _drawn(f"{n}down", 4 * width, width)]
        constants += [_drawn(f"{n}{s}", width) for s in ("s1", "s2")]
        for w, turn in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            nodes += [
                node("MatMul", [f"h{k}", f"{n}{w}"], [f"{n}{w}_all"]),
                node("Reshape", [f"{n}{w}_all", "apart"], [f"{n}{w}_heads"]),
                node("Transpose", [f"{n}{w}_heads"], [f"{n}{w}_turned"], perm=turn),
            ]
        nodes += [
            node("MatMul", [f"{n}q_turned", f"{n}k_turned"], [f"{n}dots"]),
            node("Mul", [f"{n}dots", "root"], [f"{n}scaled"]), node("Add", [f"{n}scaled", "bias"], [f"{n}masked"]),
            node("Softmax", [f"{n}masked"], [f"{n}shares"]),
            node("MatMul", [f"{n}shares", f"{n}v_turned"], [f"{n}mixed"]),
            node("Transpose", [f"{n}mixed"], [f"{n}back"], perm=[0, 2, 1, 3]),
            node("Reshape", [f"{n}back", "together"], [f"{n}flat"]), node("MatMul", [f"{n}flat", f"{n}o"], [f"{n}out"]),
            node("Add", [f"{n}out", f"h{k}"], [f"{n}sum"]),
            node("LayerNormalization", [f"{n}sum", f"{n}s1"], [f"{n}a"]),
            node("MatMul", [f"{n}a", f"{n}up"], [f"{n}wide"]), node("Mul", [f"{n}wide", "two"], [f"{n}part"]),
            node("Erf", [f"{n}part"], [f"{n}erf"]), node("Add", [f"{n}erf", "one"], [f"{n}more"]),
            node("Mul", [f"{n}wide", f"{n}more"], [f"{n}twice"]), node("Mul", [f"{n}twice", "half"], [f"{n}gelu"]),
            node("MatMul", [f"{n}gelu", f"{n}down"], [f"{n}small"]), node("Add", [f"{n}small", f"{n}a"], [f"{n}end"]),
            node("LayerNormalization", [f"{n}end", f"{n}s2"], [f"h{k + 1}"]),
        ]  # fmt: skip
    nodes += [
        node("ReduceMean", [f"h{layers}", "axis"], ["mean"], keepdims=0),
        node("MatMul", ["mean", "classes"], ["y"]),
    ]
    inputs = [tensor_input("ids", [1, tokens], _INT64), tensor_input("mask", [1, 1, 1, tokens], _BOOL)]
    return _net(nodes, inputs, constants, "y")
