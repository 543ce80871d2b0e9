"""Recipes for operators of onnxruntime's own domain; those with many operands come from the cases of their tests."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from onnx_graphs import Maker, recipe
from onnx_recipes_layers import groups_of, scale, window
from onnx_reference import Rejected, Tensor

sys.path.insert(0, str(Path(__file__).parents[1] / "onnx"))
import test_contrib

OWN = "com.microsoft"
F32 = ("float32",)


@recipe("Gelu", "FastGelu", "QuickGelu", domain=OWN, loose=True)
def gelu(m: Maker, op: str) -> None:
    m.node(op, m.operand(F32, range(1, 5)))


@recipe("BiasGelu", domain=OWN)
def bias_gelu(m: Maker, op: str) -> None:
    x = m.operand(F32, range(1, 5))
    m.node(op, x, m.new(x.shape[-1:]))


@recipe("FusedMatMul", "TransposeMatMul", domain=OWN)
def fused_matmul(m: Maker, op: str) -> None:
    a = m.operand(F32, (2, 3, 4))
    turned, transposed = m.number(0, 1), m.number(0, 1)
    inner = a.shape[-2 if turned else -1]
    n = m.number(1, 9)
    b = m.like((*a.shape[:-2], *((n, inner) if transposed else (inner, n))))
    m.node(op, a, b, transA=turned, transB=transposed, alpha=m.pick((1.0, 0.5)))


@recipe("FusedGemm", domain=OWN)
def fused_gemm(m: Maker, op: str) -> None:
    a = m.operand(F32, (2,))
    n = m.number(1, 9)
    m.node(op, a, m.like((a.shape[1], n)), m.new((n,)), activation=m.pick(("Relu", "Tanh", "Sigmoid")))


@recipe("FusedConv", domain=OWN)
def fused_conv(m: Maker, op: str) -> None:
    x = m.operand(F32, (4,), least=1)
    groups = groups_of(m, x.shape[1])
    settings = window(m, x.shape[2:])
    w = m.new((groups * m.number(1, 3), x.shape[1] // groups, *settings["kernel_shape"]))
    m.node(op, x, w, group=groups, activation=m.pick(("Relu", "Tanh", "Sigmoid")), **settings)


@recipe("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=OWN)
def skip_normalization(m: Maker, op: str) -> None:
    x = m.operand(F32, (3,))
    more = [m.new(x.shape[-1:]) for _ in range(m.number(0, 2 if op == "SkipLayerNormalization" else 1))]
    m.node(op, x, m.like(x.shape), m.new(x.shape[-1:]), *more, epsilon=1e-3)


@recipe("QLinearAdd", "QLinearMul", domain=OWN)
def quantized_pair(m: Maker, op: str) -> None:
    a = m.operand(("uint8", "int8"))
    b = m.like(a.shape, a.dtype)
    zeros = [m.uniform(0, 9, (), a.dtype, True) for _ in range(3)]
    m.node(op, a, scale(m), zeros[0], b, scale(m), zeros[1], scale(m), zeros[2], steps=1)


@recipe("QLinearSigmoid", "QLinearLeakyRelu", domain=OWN)
def quantized_function(m: Maker, op: str) -> None:
    x = m.operand(("uint8", "int8"))
    zeros = [m.uniform(0, 9, (), x.dtype, True) for _ in range(2)]
    m.node(op, x, scale(m), zeros[0], scale(m), zeros[1], steps=1, **({"alpha": 0.2} if "Leaky" in op else {}))


@recipe("QLinearGlobalAveragePool", domain=OWN)
def quantized_mean(m: Maker, op: str) -> None:
    x = m.operand(("uint8", "int8"), (4,), least=1)
    zeros = [m.uniform(0, 9, (), x.dtype, True) for _ in range(2)]
    m.node(op, x, scale(m), zeros[0], scale(m), zeros[1], channels_last=0, steps=1)


#: Settings of these depend on one another in ways that a case has worked out.
_CASES = sorted({c.operator for c in test_contrib.CASES if c.domain == OWN} - {
    "Gelu", "FastGelu", "QuickGelu", "BiasGelu", "FusedMatMul", "FusedGemm", "FusedConv", "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization", "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu",
    "QLinearGlobalAveragePool",
})  # fmt: skip


@recipe(*_CASES, domain=OWN)
def from_case(m: Maker, op: str) -> None:
    """The operands of a case, some of them replaced by what is at hand."""
    case = m.pick([c for c in test_contrib.CASES if c.operator == op and c.domain == OWN])

    def operand(k: int, a: np.ndarray | None) -> Tensor | None:
        if a is None:
            return None
        if k in case.constants or a.dtype != np.float32 or a.ndim < 2 or op == "EmbedLayerNormalization":
            return m.leaf(a, True)
        return m.like(a.shape) if m.chance(2) else m.leaf(a, False)

    operands = [operand(k, a) for k, a in enumerate(case.operands)]
    if max(case.outputs) > 2:
        raise Rejected("onnxruntime does not find the type of a fourth output")
    outputs = [k in case.outputs for k in range(max(case.outputs) + 1)]
    m.node(op, *operands, outputs=outputs, steps=case.steps, **case.attributes)
