"""Matrix products."""

from __future__ import annotations

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.values import Value


def matmul_of(a: Value, b: Value) -> Value:
    """numpy.matmul: a vector on the left is a row, on the right a column, and that dimension goes again."""
    row, column = a.rank == 1, b.rank == 1
    y = (a.unsqueeze(0) if row else a) @ (b.unsqueeze(1) if column else b)
    if column:
        y = y.squeeze(-1)
    return y.squeeze(y.rank - (1 if column else 2)) if row else y


@onnx("MatMul")
def matmul(call: Call) -> Value:
    return matmul_of(call[0], call[1])


@onnx("Gemm")
def gemm(call: Call) -> Value:
    a, b, c = call[0], call[1], call.optional(2)
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)
    if not a.is_float:
        alpha, beta = int(alpha), int(beta)
    a = a.swap(0, 1) if call.attribute("transA") else a
    b = b.swap(0, 1) if call.attribute("transB") else b
    y = a @ b
    y = y if alpha == 1 else y * alpha
    if c is None or beta == 0:
        return y
    return y + (c if beta == 1 else c * beta)
