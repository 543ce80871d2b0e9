"""Operators of com.microsoft against onnxruntime itself: one node each, fresh random operands, several settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs
from onnx import TensorProto, helper, numpy_helper

from edgec.frontend.onnx import import_model
from edgec.ir import evaluate
from edgec.rewrite import simplify

MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Case:
    """One node; operands in ``constants`` are initializers, the others inputs, None is left out.

    ``steps`` is by how many quanta integers may be off: onnxruntime computes quantized functions by table or in
    another order, which rounds ties the other way.
    """

    operator: str
    operands: tuple[np.ndarray | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    constants: tuple[int, ...] = ()
    outputs: tuple[int, ...] = (0,)
    steps: int = 0
    domain: str = MICROSOFT

    def __str__(self) -> str:
        settings = ",".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.operator}({settings})"


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def scales(*shape: int) -> np.ndarray:
    return RANDOM.uniform(0.01, 0.1, shape).astype(np.float32)


def bytes_(*shape: int, dtype: type = np.uint8) -> np.ndarray:
    """Any bytes. Signed ones of products are halved: without VNNI the peer saturates sums of two."""
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def ints(*values: int, dtype: type = np.int32) -> np.ndarray:
    return np.array(values, dtype)


def one(value: float, dtype: type = np.float32) -> np.ndarray:
    return np.array(value, dtype)


def quantized(*shape: int, dtype: type = np.uint8, zero: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Elements with their scale and zero point."""
    return bytes_(*shape, dtype=dtype), scales(), one(zero, dtype)


def lengths_mask(batch: int, length: int) -> np.ndarray:
    ends = RANDOM.integers(1, length + 1, (batch, 1))
    return (np.arange(length) < ends).astype(np.int32)


X, ROW = floats(2, 5, 12), floats(12)
IMAGE, FILTERS = floats(2, 4, 7, 9), floats(6, 4, 3, 3)
PADS = {"pads": [1, 0, 1, 2], "strides": [2, 1], "dilations": [1, 2]}

FLOATING = [
    Case("Gelu", (X,)),
    Case("BiasGelu", (X, ROW)),
    Case("FastGelu", (X,)),
    Case("FastGelu", (X, ROW)),
    Case("QuickGelu", (X,)),
    Case("QuickGelu", (X,), {"alpha": 0.7}),
    Case("FusedConv", (IMAGE, FILTERS), {"activation": "Relu"}),
    Case("FusedConv", (IMAGE, FILTERS, floats(6)), {"activation": "Tanh", **PADS}),
    Case("FusedConv", (IMAGE, FILTERS, floats(6), floats(2, 6, 5, 7)), {"activation": "Relu"}),
    Case("FusedConv", (IMAGE, FILTERS), {"activation": "LeakyRelu", "activation_params": [0.2]}),
    Case("FusedConv", (IMAGE, FILTERS), {"activation": "Clip", "activation_params": [-0.5, 0.75]}),
    Case("FusedConv", (IMAGE, FILTERS), {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]}),
    Case("FusedConv", (IMAGE, floats(4, 1, 3, 3)), {"activation": "Sigmoid", "group": 4}),
    Case("FusedGemm", (floats(3, 4), floats(4, 5), floats(5)), {"activation": "Relu", "alpha": 0.5, "beta": 2.0}),
    Case("FusedGemm", (floats(4, 3), floats(5, 4)),
         {"activation": "LeakyRelu", "activation_alpha": 0.1, "transA": 1, "transB": 1}),
    Case("FusedMatMul", (X, floats(12, 7)), {"alpha": 0.25}),
    Case("FusedMatMul", (floats(2, 3, 4, 5), floats(2, 3, 6, 5)), {"transB": 1}),
    Case("FusedMatMul", (floats(2, 3, 5, 4), floats(2, 3, 5, 6)), {"transA": 1, "alpha": 2.0}),
    Case("FusedMatMul", (floats(4, 2, 3, 5), floats(2, 3, 5, 6)), {"transBatchA": 1}),
    Case("FusedMatMul", (floats(5, 2, 3, 4), floats(6, 2, 3, 5)),
         {"transBatchA": 1, "transA": 1, "transBatchB": 1, "transB": 1}),
    Case("TransposeMatMul", (floats(2, 5, 4), floats(2, 5, 6)), {"transA": 1, "alpha": 0.5}),
    Case("SimplifiedLayerNormalization", (X, ROW), {"axis": -1, "epsilon": 1e-5}, domain=""),
    Case("SkipLayerNormalization", (X, floats(2, 5, 12), ROW)),
    Case("SkipLayerNormalization", (X, floats(2, 5, 12), ROW, floats(12), floats(12)),
         {"epsilon": 1e-3}, outputs=(0, 3)),
    Case("SkipLayerNormalization", (X, floats(1, 5, 12), ROW, floats(12))),
    Case("SkipSimplifiedLayerNormalization", (X, floats(2, 5, 12), ROW), {"epsilon": 1e-6}),
    Case("SkipSimplifiedLayerNormalization", (X, floats(2, 5, 12), ROW, floats(12)), outputs=(0, 3)),
    Case("EmbedLayerNormalization",
         (ints(*range(8)).reshape(2, 4), None, floats(9, 6), floats(5, 6), None, floats(6), floats(6)),
         {"epsilon": 1e-5}, outputs=(0, 1)),
    Case("EmbedLayerNormalization",
         (ints(*range(8)).reshape(2, 4), ints(*[0, 1] * 4).reshape(2, 4), floats(9, 6), floats(5, 6), floats(2, 6),
          floats(6), floats(6), lengths_mask(2, 4)), outputs=(0, 1, 2)),
    Case("EmbedLayerNormalization",
         (ints(*range(8)).reshape(2, 4), ints(*[0, 1] * 4).reshape(2, 4), floats(9, 6), floats(5, 6), floats(2, 6),
          floats(6), floats(6), None, ints(3, 2, 1, 0, 0, 4, 1, 2).reshape(2, 4)), outputs=(0, 1)),
]  # fmt: skip

HEADS = {"num_heads": 3}
WEIGHTS, BIASES = floats(12, 36), floats(36)
ATTENTION = [
    Case("Attention", (X, WEIGHTS, BIASES), HEADS),
    Case("Attention", (X, WEIGHTS, BIASES), {**HEADS, "unidirectional": 1, "scale": 0.3}),
    Case("Attention", (X, WEIGHTS, BIASES, lengths_mask(2, 5)), HEADS),
    Case("Attention", (X, WEIGHTS, BIASES, ints(3, 5)), HEADS),
    Case("Attention", (X, WEIGHTS, BIASES, ints(4, 5, 1, 2)), {**HEADS, "mask_filter_value": -50.0}),
    Case("Attention", (X, WEIGHTS, BIASES, (floats(2, 5, 5) > 0).astype(np.int32)), HEADS),
    Case("Attention", (X, WEIGHTS, BIASES, None, floats(2, 2, 3, 4, 4)),
         {**HEADS, "unidirectional": 1}, outputs=(0, 1)),
    Case("Attention", (X, WEIGHTS, BIASES, lengths_mask(2, 9), floats(2, 2, 3, 4, 4)), HEADS, outputs=(0, 1)),
    Case("Attention", (X, WEIGHTS, BIASES, None, None, floats(2, 3, 5, 5)), HEADS),
    Case("Attention", (X, floats(12, 42), floats(42)), {**HEADS, "qkv_hidden_sizes": [12, 12, 18]}),
    Case("MultiHeadAttention", (X, floats(2, 7, 12), floats(2, 7, 12)), HEADS),
    Case("MultiHeadAttention", (X, floats(2, 7, 12), floats(2, 7, 15), floats(39)), {**HEADS, "scale": 0.2}),
    Case("MultiHeadAttention", (X, floats(2, 3, 7, 4), floats(2, 3, 7, 4)), HEADS),
    Case("MultiHeadAttention", (X, X, X, None, lengths_mask(2, 5)), HEADS),
    Case("MultiHeadAttention", (X, X, X, BIASES, ints(5, 3), floats(1, 3, 5, 5)), HEADS),
    Case("MultiHeadAttention", (X, X, X, None, None, floats(2, 1, 5, 5)), {**HEADS, "unidirectional": 1}),
    Case("MultiHeadAttention", (X, floats(2, 7, 12), floats(2, 7, 12)), {**HEADS, "unidirectional": 1}),
    Case("MultiHeadAttention", (X, floats(2, 3, 12), floats(2, 3, 12)), {**HEADS, "unidirectional": 1}),
    Case("MultiHeadAttention", (X, X, X, None, None, None, floats(2, 3, 4, 4), floats(2, 3, 4, 4)),
         {**HEADS, "unidirectional": 1}, outputs=(0, 1, 2)),
    Case("MultiHeadAttention",
         (X, X, X, None, None, None, floats(2, 3, 4, 4), floats(2, 3, 4, 4)), HEADS, outputs=(0, 1, 2)),
    Case("MultiHeadAttention", (X, X, X), HEADS, outputs=(0, 1, 2, 3)),
    Case("MultiHeadAttention", (X, X, X, None, None, floats(2, 1, 5, 5)), HEADS, outputs=(0, 1, 2, 3)),
    Case("QAttention",
         (bytes_(2, 5, 12), bytes_(12, 36), BIASES, one(0.02), one(0.01), None, one(120, np.uint8), one(127, np.uint8)),
         HEADS, (1, 2, 3, 4, 6, 7)),
    Case("QAttention",
         (bytes_(2, 5, 12), bytes_(12, 36, dtype=np.int8) // 2, BIASES, one(0.02), scales(36) * 0.1, ints(4, 5),
          one(120, np.uint8), np.zeros(36, np.int8), floats(2, 2, 3, 4, 4)), {**HEADS, "unidirectional": 1},
         (1, 2, 3, 4, 6, 7), outputs=(0, 1)),
]  # fmt: skip

ANGLES = np.outer(np.arange(20), 0.5 ** np.arange(4)).astype(np.float32)
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)
TOKENS = floats(2, 5, 24)
PLACES = np.array([[0, 1, 2, 3, 4], [7, 8, 9, 10, 11]])
ROTARY = [
    Case("RotaryEmbedding", (TOKENS, ints(0, dtype=np.int64), COS, SIN)),
    Case("RotaryEmbedding", (TOKENS, ints(3, dtype=np.int64), COS, SIN), {"interleaved": 1}),
    Case("RotaryEmbedding", (TOKENS, PLACES, COS, SIN)),
    Case("RotaryEmbedding", (floats(2, 3, 5, 8), PLACES, COS, SIN), {"interleaved": 1}),
    Case("RotaryEmbedding", (floats(2, 5, 36), PLACES, COS, SIN), {"num_heads": 3, "rotary_embedding_dim": 8}),
]

GROUPS = {"num_heads": 6, "kv_num_heads": 2}
QUERY, KEY, VALUE = floats(2, 5, 96), floats(2, 5, 32), floats(2, 5, 32)
WIDE = np.outer(np.arange(20), 0.5 ** np.arange(8)).astype(np.float32)
TURNS = (np.cos(WIDE), np.sin(WIDE))
PROMPT = (QUERY, KEY, VALUE, None, None, ints(4, 4), one(5, np.int32))


def step(length: int, kept: int, ends: tuple[int, ...], *more: np.ndarray | None) -> tuple[np.ndarray | None, ...]:
    """Operands for ``length`` new tokens behind a cache of ``kept``."""
    batch = len(ends)
    cache = (floats(batch, 2, kept, 16), floats(batch, 2, kept, 16))
    lengths = (ints(*(e - 1 for e in ends)), one(max(ends), np.int32))
    return (floats(batch, length, 96), floats(batch, length, 32), floats(batch, length, 32), *cache, *lengths, *more)


GROUPED = [
    Case("GroupQueryAttention", PROMPT, GROUPS, (5, 6), outputs=(0, 1, 2)),
    Case("GroupQueryAttention", (floats(2, 5, 160), None, None, *PROMPT[3:]), {**GROUPS, "scale": 0.1}, (5, 6)),
    Case("GroupQueryAttention", (*PROMPT, *TURNS),
         {**GROUPS, "do_rotary": 1}, (5, 6), outputs=(0, 1, 2)),
    Case("GroupQueryAttention", (*PROMPT, *TURNS),
         {**GROUPS, "do_rotary": 1, "rotary_interleaved": 1}, (6,)),
    Case("GroupQueryAttention", PROMPT, {**GROUPS, "local_window_size": 2}, (5, 6)),
    Case("GroupQueryAttention", PROMPT, {**GROUPS, "softcap": 2.0}, (5, 6)),
    Case("GroupQueryAttention", PROMPT, {**GROUPS, "smooth_softmax": 1}, (5, 6)),
    Case("GroupQueryAttention", (*PROMPT, None, None, None, None, floats(6)), GROUPS, (5, 6)),
    Case("GroupQueryAttention", (*PROMPT, None, None, None, floats(2, 6, 5, 5)), GROUPS, (5, 6)),
    Case("GroupQueryAttention", PROMPT, {**GROUPS, "causal": 0}, (5, 6)),
    Case("GroupQueryAttention", step(1, 7, (8, 8)), GROUPS, (5, 6), outputs=(0, 1, 2)),
    Case("GroupQueryAttention", step(1, 7, (8, 5)), GROUPS, (6,), outputs=(0, 1, 2)),
    Case("GroupQueryAttention", step(3, 7, (10,), *TURNS), {**GROUPS, "do_rotary": 1}, (5, 6), outputs=(0, 1, 2)),
    Case("GroupQueryAttention", step(1, 7, (8, 6), *TURNS),
         {**GROUPS, "do_rotary": 1, "local_window_size": 4}, (6,), outputs=(0, 1, 2)),
]  # fmt: skip


def nbits(
    inputs: int, outputs: int, block: int, bits: int, zero: str = "", bias: bool = False, groups: bool = False
) -> Case:
    """A product by weights of a few bits."""
    blocks = -(-inputs // block)
    row = -(-blocks * bits // 8)
    zeros = {"": None, "packed": bytes_(outputs, row), "float": floats(outputs, blocks) + 8}[zero]
    operands = (
        floats(2, 3, inputs), bytes_(outputs, blocks, block * bits // 8), scales(outputs, blocks), zeros,
        (RANDOM.permutation(inputs) // block).astype(np.int32) if groups else None,
        floats(outputs) if bias else None,
    )  # fmt: skip
    settings = {"K": inputs, "N": outputs, "block_size": block, "bits": bits}
    return Case("MatMulNBits", operands, settings, tuple(k for k in range(1, 6) if operands[k] is not None))


WEIGHT_ONLY = [
    nbits(64, 10, 16, 4),
    nbits(64, 10, 32, 4, "packed"),
    nbits(96, 7, 32, 4, "packed", bias=True),
    nbits(50, 8, 16, 4),
    nbits(64, 8, 16, 4, "float"),
    nbits(64, 10, 16, 8),
    nbits(64, 10, 32, 8, "packed", bias=True),
    Case("GatherBlockQuantized", (bytes_(9, 16), ints(3, -1, 8, dtype=np.int64), scales(9, 2)),
         {"block_size": 16}, (0, 2)),
    Case("GatherBlockQuantized", (bytes_(9, 32), ints(3, 0, 8, 1).reshape(2, 2), scales(9, 2), bytes_(9, 2)),
         {"block_size": 16, "bits": 8}, (0, 2, 3)),
    Case("GatherBlockQuantized", (bytes_(9, 16), ints(3, 0, 8), scales(9, 2), bytes_(9, 1)),
         {"block_size": 16}, (0, 2, 3)),
]  # fmt: skip


def quantized_lstm(directions: int, batch: int, steps: int, inputs: int, hidden: int, by_column: bool = False) -> Case:
    """With states, biases and peepholes where there are two directions."""
    widths = (directions, 4 * hidden) if by_column else (directions,)
    dtype = np.int8 if by_column else np.uint8
    weights = [bytes_(directions, n, 4 * hidden, dtype=dtype) // (2 if by_column else 1) for n in (inputs, hidden)]
    zeros = [np.zeros(widths, dtype) if by_column else bytes_(*widths) // 2 + 64 for _ in weights]
    fitted = [a for zero in zeros for a in ((scales(*widths) * 0.05).astype(np.float32), zero)]
    more: list[np.ndarray | None] = [None] * 5
    if directions > 1:
        states = [floats(directions, batch, hidden) for _ in range(2)]
        more = [floats(directions, 8 * hidden), None, *states, floats(directions, 3 * hidden)]
    operands = (floats(steps, batch, inputs), *weights, *more, *fitted)
    settings = {"hidden_size": hidden, "direction": "bidirectional" if directions > 1 else "forward"}
    constants = tuple(k for k in (1, 2, 3, 7, 8, 9, 10, 11) if operands[k] is not None)
    return Case("DynamicQuantizeLSTM", operands, settings, constants, (0, 1, 2))


A, B = quantized(2, 3, 5), quantized(2, 3, 5, zero=130)
SIGNED = quantized(2, 3, 5, dtype=np.int8, zero=-4)
TO, TO_SIGNED = (one(0.05), one(128, np.uint8)), (one(0.05), one(5, np.int8))
PICTURE = quantized(2, 4, 7, 9)
QUANTIZED = [
    Case("QLinearAdd", (*A, *B, *TO), steps=1),
    Case("QLinearAdd", (*A, *quantized(3, 1), *TO), steps=1),
    Case("QLinearAdd", (*SIGNED, *SIGNED, *TO_SIGNED), steps=1),
    Case("QLinearMul", (*A, *B, one(0.3), one(9, np.uint8)), steps=1),
    Case("QLinearSigmoid", (*A, one(1 / 256), one(0, np.uint8)), {}, (1, 2, 3, 4), steps=1),
    Case("QLinearLeakyRelu", (*B, *TO), {"alpha": 0.2}, (1, 2, 3, 4), steps=1),
    Case("QLinearLeakyRelu", (*SIGNED, *TO_SIGNED), {}, (1, 2, 3, 4), steps=1),
    Case("QLinearSoftmax", (*A, one(1 / 256), one(0, np.uint8)), {"axis": -1, "opset": 13}, (1, 2, 3, 4), steps=1),
    Case("QLinearSoftmax", (*A, one(1 / 256), one(0, np.uint8)), {"axis": 1, "opset": 13}, (1, 2, 3, 4), steps=1),
    Case("QLinearSoftmax", (*A, one(1 / 256), one(0, np.uint8)), {"axis": 1, "opset": 11}, (1, 2, 3, 4), steps=1),
    Case("QLinearConcat", (*TO, *A, *B), {"axis": 1}, (0, 1, 3, 4, 6, 7), steps=1),
    Case("QLinearWhere", (floats(2, 3, 1) > 0, *A, *B, *TO), {}, (2, 3, 5, 6, 7, 8), steps=1),
    Case("QLinearAveragePool", (*PICTURE, *TO), {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}, steps=1),
    Case("QLinearAveragePool", (*PICTURE, *TO),
         {"kernel_shape": [3, 3], "strides": [2, 2], "count_include_pad": 1, "pads": [1, 1, 1, 1]}, steps=1),
    Case("QLinearAveragePool", (*quantized(2, 7, 9, 4), *TO),
         {"kernel_shape": [2, 2], "channels_last": 1, "ceil_mode": 1, "strides": [2, 2]}, steps=1),
    Case("QLinearGlobalAveragePool", (*PICTURE, *TO)),
    Case("QLinearGlobalAveragePool", (*quantized(2, 7, 9, 4), *TO), {"channels_last": 1}),
    Case("QLinearGlobalAveragePool", (bytes_(1, 300, 2, 2), *A[1:], *A[1:])),  # of which every fourth mean is a tie
    Case("QLinearConv", (*PICTURE, *quantized(6, 4, 3, 3, zero=100), one(2.0), one(128, np.uint8)),
         {"pads": [1, 1, 1, 1]}, (3, 4, 5), steps=1),
    Case("QLinearConv", (*quantized(2, 7, 9, 4), *quantized(6, 4, 3, 3, zero=100), one(2.0), one(128, np.uint8)),
         {"strides": [2, 1], "channels_last": 1}, (3, 4, 5), steps=1),
    Case("NhwcMaxPool", (bytes_(2, 7, 9, 4),), {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    Case("NhwcMaxPool", (bytes_(2, 7, 9, 4, dtype=np.int8),), {"kernel_shape": [2, 2], "dilations": [2, 1]}),
    Case("QGemm", (bytes_(4, 7), one(0.02), one(99, np.uint8), bytes_(7, 5), one(0.03), one(130, np.uint8))),
    Case("QGemm",
         (bytes_(7, 4), one(0.02), one(99, np.uint8), bytes_(5, 7, dtype=np.int8) // 2, scales(5), np.zeros(5, np.int8),
          RANDOM.integers(-999, 999, 5).astype(np.int32), one(0.6), one(128, np.uint8)),
         {"transA": 1, "transB": 1, "alpha": 0.5}, (3, 4, 5), steps=1),
    Case("MatMulIntegerToFloat",
         (bytes_(2, 4, 7), bytes_(7, 5), one(0.02), one(0.03), one(99, np.uint8), one(130, np.uint8))),
    Case("MatMulIntegerToFloat",
         (bytes_(4, 7), bytes_(7, 5, dtype=np.int8) // 2, one(0.02), scales(5), one(99, np.uint8), np.zeros(5, np.int8),
          floats(5)), {}, (1, 3, 5)),
    Case("DynamicQuantizeMatMul", (floats(2, 4, 7), bytes_(7, 5), one(0.03), one(130, np.uint8), floats(5))),
    Case("DynamicQuantizeMatMul", (floats(4, 7), bytes_(7, 5, dtype=np.int8) // 2, scales(5), np.zeros(5, np.int8)),
         {}, (1,)),
    *(quantized_lstm(*sizes) for sizes in ((1, 1, 3, 4, 5), (2, 2, 4, 3, 6), (1, 1, 2, 5, 16, True))),
    Case("MatMulInteger16", (bytes_(3, 4, dtype=np.int16), bytes_(4, 2, dtype=np.int16) // 64)),
    Case("QuantizeLinear", (X, one(0.03), one(128, np.uint8))),
    Case("QuantizeLinear", (X, scales(5) * 0.01, bytes_(5, dtype=np.int16)), {"axis": 1}),
    Case("DequantizeLinear", (bytes_(2, 5, dtype=np.uint16), scales(5), bytes_(5, dtype=np.uint16)), {"axis": 1}),
]  # fmt: skip
CASES = [*FLOATING, *ATTENTION, *ROTARY, *GROUPED, *WEIGHT_ONLY, *QUANTIZED]


def _output(name: str) -> Any:
    """onnxruntime finds out the types of outputs, but for a fourth one."""
    if name == "y3":
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    return helper.make_empty_tensor_value_info(name)


def model_of(case: Case) -> tuple[Any, dict[str, np.ndarray], list[str]]:
    """The model, what it is fed, and the names of the outputs that are asked for."""
    names = [f"x{k}" if a is not None else "" for k, a in enumerate(case.operands)]
    arrays = {n: a for n, a in zip(names, case.operands) if a is not None}
    outputs = [f"y{k}" if k in case.outputs else "" for k in range(max(case.outputs) + 1)]
    node = helper.make_node(case.operator, names, outputs, "n", domain=case.domain, **case.attributes)
    fixed = {names[k] for k in case.constants}
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in arrays.items()
        if n not in fixed
    ]
    wanted = [n for n in outputs if n]
    graph = helper.make_graph(
        [node], "g", inputs, [_output(n) for n in wanted],
        [numpy_helper.from_array(arrays[n], n) for n in fixed],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 8
    return model, {n: a for n, a in arrays.items() if n not in fixed}, wanted


def reference(model: Any, feeds: dict[str, np.ndarray], names: list[str]) -> dict[str, np.ndarray]:
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1  # several threads quantize the states of a batch in parts
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, feeds)))


def assert_agree(case: Case, got: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    for name, want in wanted.items():
        assert got[name].dtype == want.dtype and got[name].shape == want.shape, f"{case}: {name}"
        a, b = got[name].astype(np.float64), want.astype(np.float64)
        tolerance = case.steps if want.dtype.kind in "iu" else 1e-4 * np.abs(b).max(initial=0)
        assert np.isfinite(b).all() and np.abs(a - b).max(initial=0) <= tolerance, f"{case}: {name}"
        if want.dtype.kind in "iu":
            assert np.mean(a != b) <= 0.05, f"{case}: {name} is off by a quantum too often"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_agrees_with_onnxruntime(case: Case) -> None:
    model, feeds, names = model_of(case)
    assert_agree(case, evaluate.run(import_model(model), feeds), reference(model, feeds, names))


@pytest.mark.parametrize(
    "kind", [FLOATING + ROTARY, ATTENTION, GROUPED, WEIGHT_ONLY + QUANTIZED], ids=lambda k: str(k[0])
)
def test_compiled(kind: list[Case], tmp_path: Path) -> None:
    """All stages and the C compiler, many cases to one library."""
    models = {str(k): model_of(case) for k, case in enumerate(kind)}
    graphs = {k: simplify(import_model(model))[0] for k, (model, _, _) in models.items()}
    for (k, net), case in zip(compile_graphs(graphs, tmp_path).items(), kind):
        assert isinstance(net, Compiled), case
        assert_agree(case, net(models[k][1]), reference(*models[k]))


def computed(case: Case) -> np.ndarray:
    model, feeds, (name,) = model_of(case)
    return evaluate.run(import_model(model), feeds)[name]


def test_packed_operands() -> None:
    """Packed operands, which onnxruntime supports on other CPUs only, equal separate operands."""
    packed = floats(2, 5, 3, 3, 4)
    parts = [np.ascontiguousarray(packed[:, :, :, k]).reshape(2, 5, 12) for k in range(3)]
    want = computed(Case("MultiHeadAttention", tuple(parts), HEADS))
    np.testing.assert_allclose(computed(Case("MultiHeadAttention", (packed,), HEADS)), want, rtol=1e-5)
    keys_and_values = np.ascontiguousarray(packed[:, :, :, 1:])
    got = computed(Case("MultiHeadAttention", (parts[0], keys_and_values), HEADS))
    np.testing.assert_allclose(got, want, rtol=1e-5)
