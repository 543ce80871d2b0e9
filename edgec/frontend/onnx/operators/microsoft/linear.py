"""Products with something fused to them."""

from __future__ import annotations

from edgec.frontend.onnx.call import Call
from edgec.frontend.onnx.operators.conv import convolve, per_channel
from edgec.frontend.onnx.operators.linear import gemm, matmul_of
from edgec.frontend.onnx.operators.microsoft.activation import activated
from edgec.frontend.onnx.operators.microsoft.domain import microsoft
from edgec.frontend.values import Value


@microsoft("FusedConv")
def fused_conv(call: Call) -> Value:
    """Convolution, bias, a summand of the result's shape, activation."""
    y = convolve(call, call[0], call[1])
    bias, summand = call.optional(2), call.optional(3)
    y = y if bias is None else y + per_channel(bias, y.rank)
    return activated(call, y if summand is None else y + summand, *call.attribute("activation_params", ()))


@microsoft("FusedGemm")
def fused_gemm(call: Call) -> Value:
    given = [call.attribute(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    return activated(call, gemm(call), *(v for v in given if v is not None))


@microsoft("FusedMatMul", "TransposeMatMul")
def fused_matmul(call: Call) -> Value:
    """A product of operands that are transposed first, scaled."""
    a, b = (_transposed(call, call[k], name) for k, name in enumerate("AB"))
    y, alpha = matmul_of(a, b), call.attribute("alpha", 1.0)
    return y if alpha == 1 else y * alpha


def _transposed(call: Call, x: Value, name: str) -> Value:
    """``transBatch`` rotates the batch dimensions and the first of the matrix, ``trans`` swaps the last two."""
    if call.attribute(f"transBatch{name}", 0):
        x = x.transpose(*range(1, x.rank - 1), 0, x.rank - 1)
    return x.swap(-2, -1) if call.attribute(f"trans{name}", 0) and x.rank > 1 else x
