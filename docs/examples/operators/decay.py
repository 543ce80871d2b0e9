"""A procedure: each element needs the result before it, so there is no formula for one element by itself.

Its template is docs/examples/templates/c/decay.c.jinja.
"""

import numpy as np

from edgec.frontend import Value
from edgec.frontend.onnx import Call, onnx
from edgec.ir.graph import Procedure
from edgec.ops import Tensor, procedure


@procedure
def decay(x: Tensor, *, keep: float) -> Procedure:
    """y[.., i] = x[.., i] + keep * y[.., i - 1]: an echo that fades."""
    extent = x.shape[-1]

    def compute(values: np.ndarray) -> np.ndarray:
        result = values.copy()
        for i in range(1, extent):
            result[..., i] += np.float32(keep) * result[..., i - 1]
        return result

    rows = x.type.elements // max(extent, 1)
    return Procedure(x.type, compute, tasks=rows, steps=2 * x.type.elements, overwrites=0, sizes={"extent": extent})


@onnx("Echo", domain="docs.example")
def echo(call: Call) -> Value:
    return call.node("decay", call[0], keep=call.attribute("keep", 0.5))
