"""Comparisons and truth values."""

from __future__ import annotations

from edgec.frontend.onnx.call import Call, Lowering, onnx
from edgec.frontend.values import Value, emit


def _same(core: str) -> Lowering:
    def lower(call: Call) -> Value:
        return emit(core, *call.aligned)

    return lower


for _operator, _core in {
    "And": "and", "Or": "or", "Xor": "xor", "Not": "not", "Equal": "eq", "Less": "lt", "Greater": "gt",
    "LessOrEqual": "le", "GreaterOrEqual": "ge",
}.items():  # fmt: skip
    onnx(_operator)(_same(_core))
