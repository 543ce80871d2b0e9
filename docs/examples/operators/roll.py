"""Two user-defined operators: a core operator by its element formula, and an ONNX operator that uses it.

Use it with --operators and the folder of this file.
"""

from edgec.frontend import Value
from edgec.frontend.onnx import Call, onnx
from edgec.ir.graph import Formula
from edgec.ops import Tensor, compute, op


@op
def roll(x: Tensor, *, shift: int) -> Formula:
    """y[.., i] = x[.., i - shift], cyclically."""
    extent = x.shape[-1]
    return compute(x.shape, lambda *i: x[(*i[:-1], (i[-1] + -shift % extent) % extent)])


@onnx("CyclicMean", domain="docs.example")
def cyclic_mean(call: Call) -> Value:
    """The weighted mean of every element and its two neighbors along the last dimension, which is cyclic."""
    x = call[0]
    weight = call.attribute("weight", 1.0)
    neighbors = call.node("roll", x, shift=1) + call.node("roll", x, shift=-1)
    return (x + neighbors * weight) / (1 + 2 * weight)
