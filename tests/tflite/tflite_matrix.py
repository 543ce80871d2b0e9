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
    "CALL": "subgraphs", "IF": "subgraphs, branches of equal shapes", "WHILE": "subgraphs, a known number of rounds",
    **dict.fromkeys(["COMPLEX_ABS", "IMAG", "REAL", "RFFT2D"], "float, of complex"),
    **dict.fromkeys(["MaxPoolingWithArgmax2D", "MaxUnpooling2D"], "float, against numpy (LiteRT does not have it)"),
    "SVDF": "states", "UNIDIRECTIONAL_SEQUENCE_LSTM": "states",
    "Convolution2DTransposeBias": "trained models, against the same network in ONNX",
}  # fmt: skip
_TYPES = {"f32": "float", "i8": "int8", "u8": "uint8", "i32": "int32", "hybrid": "float by int8", "bool": "bool"}

_HEAD = """# Supported TensorFlow Lite operators

Written by `tests/tflite/tflite_matrix.py`. Each row is a supported operator, builtin or custom. The second column lists
the element types of the small models with which `tests/tflite` compares the operator with LiteRT's interpreter. Floats
agree within 1e-5 of the largest value. Integers agree bit by bit; for operators marked *, whose kernels in the
interpreter round in another way than the operator's formula, they agree within one quantization step.

Weights may also be fp16, sparse, or packed 4-bit integers. For states and quantized inputs see [the guide](guide.md).

| operator | compared with LiteRT in |
|---|---|
"""

_TAIL = """
Operators that are not listed are not supported. For these, the error message gives a reason:

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
