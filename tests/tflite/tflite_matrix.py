"""Write docs/guide/tflite.md: the supported TensorFlow Lite operators and the types in which they agree with LiteRT.

Run from the project's root: ``python tests/tflite/tflite_matrix.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "tflite.md"
#: Operators that tests with states or trained models cover.
ELSEWHERE = {
    "ASSIGN_VARIABLE": "states", "CALL_ONCE": "states", "READ_VARIABLE": "states", "VAR_HANDLE": "states",
    "SVDF": "states", "UNIDIRECTIONAL_SEQUENCE_LSTM": "states",
    "Convolution2DTransposeBias": "trained models, against the same network in ONNX",
}  # fmt: skip
_TYPES = {"f32": "float", "i8": "int8", "u8": "uint8", "i32": "int32", "hybrid": "float by int8", "bool": "bool"}

_HEAD = """# Supported TensorFlow Lite operators

This page is written by `tests/tflite/tflite_matrix.py`. Every row is an operator that is lowered, builtin
or a widespread custom one; the second column tells the element types in which a small model of it is held against
LiteRT's interpreter by `tests/tflite`. Floats agree within 1e-5 of the largest value. Integers agree to the bit, except
those of the operators marked *, whose kernels round otherwise than their formula: they agree within one step.

Weights may also be float16, sparse, or packed integers of 4 bits. [The guide](guide.md) says how states and quantized
inputs are handled.

| operator | compared with LiteRT in |
|---|---|
"""

_TAIL = """
Not supported, beside what is not in this list:

| operator | why |
|---|---|
"""


def text() -> str:
    """The whole page."""
    from test_tflite_operators import ROUNDED_OTHERWISE, SHIPPED
    from tflite_cases import CASES

    from edgec.frontend.tflite.call import refused

    tried: dict[str, list[str]] = {}
    for name in CASES:
        operator, _, rest = name.partition("-")
        kind = _TYPES[rest.split("-")[0] or "f32"]
        if kind not in tried.setdefault(operator, []):
            tried[operator].append(kind)
    rows = []
    for operator in sorted(SHIPPED, key=str.upper):
        types = tried.get(operator, [])
        mark = "*" if operator in ROUNDED_OTHERWISE and {"int8", "uint8"} & set(types) else ""
        rows.append(f"| {operator}{mark} | {', '.join(types) or ELSEWHERE[operator]} |")
    reasons = [f"| {operator} | {why} |" for operator, why in refused().items()]
    return _HEAD + "\n".join(rows) + "\n" + _TAIL + "\n".join(reasons) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
