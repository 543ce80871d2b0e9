"""Encoding and selection of features (ai.onnx.ml), as far as it is about numbers."""

from __future__ import annotations

from math import prod

import numpy as np

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.indices import require_inside
from edgec.frontend.onnx.strings import Strings, of_one_width, rows_of
from edgec.frontend.values import Value, concat, constant, emit, select
from edgec.ir.types import DTYPES

ML = "ai.onnx.ml"


@onnx("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(call: Call) -> Value:
    """Columns of the last dimension; the result is a matrix even where the operand is a vector."""
    x, chosen = call[0], call[1]
    require_inside(call, chosen, x.shape[-1], 0)
    y = x.gather(chosen.reshape(prod(chosen.shape)), x.rank - 1)
    return y.reshape(1, y.shape[0]) if y.rank == 1 else y


@onnx("Binarizer", domain=ML)
def binarizer(call: Call) -> Value:
    x = call[0]
    return emit("gt", x, call.attribute("threshold", 0.0)).cast(x.dtype)


@onnx("LabelEncoder", domain=ML)
def label_encoder(call: Call) -> Value | Strings:
    """Values in the place of keys, and a default in the place of everything else."""
    keys, values, default = (_table(call, kind) for kind in ("keys", "values", "default"))
    if keys is None or values is None:
        raise call.error("keys or values are missing")
    places: Value = constant(np.arange(keys.shape[0]))
    first = select(_matches(call, keys), places, keys.shape[0]).reduce("min", [-1], keep=False)
    if isinstance(values, Strings):
        other = default if isinstance(default, Strings) else Strings(constant(rows_of(np.array(["_Unused"]))))
        listed, rest = of_one_width([values, other])
        rest = rest.reshape(prod(other.shape), rest.shape[-1]).part(0, 0, 1)
        return Strings(concat([listed, rest], 0).gather(first, 0))
    if not isinstance(default, np.ndarray):
        default = np.zeros((), values.dtype) if values.dtype.kind == "f" else np.asarray(-1, values.dtype)
    known = constant(np.append(values, default.reshape(-1)[:1]).astype(values.dtype))
    return known.gather(first, 0)


def _matches(call: Call, keys: np.ndarray | Strings) -> Value:
    """For every element and key whether they are equal."""
    if isinstance(keys, Strings):
        x, known = of_one_width([call.strings(0), keys])
        return x.unsqueeze(-2).equals(known).reduce("and", [-1], keep=False)
    numbers = call[0]
    same = numbers.unsqueeze(-1).equals(constant(keys.astype(DTYPES[numbers.dtype])))
    is_nan = np.isnan(keys.astype(np.float64))
    if is_nan.any() and numbers.is_float and call.opset >= 4:  # since then a key that is NaN stands for every NaN
        same = same | (emit("isnan", numbers).unsqueeze(-1) & constant(is_nan))
    return same


def _table(call: Call, what: str) -> np.ndarray | Strings | None:
    """Keys, values or the default, whichever of the attributes for them is there."""
    for kind, dtype in (("tensor", None), ("int64s", np.int64), ("floats", np.float32), ("strings", None)):
        name = f"{what}_{kind if what != 'default' else kind.rstrip('s')}"
        given = call.attribute(name)
        if given is not None and (what != "default" or _is_for(call, kind)):
            if kind == "strings":
                return Strings(constant(rows_of(np.array(given, object))))
            return given if isinstance(given, Strings) else np.asarray(given, dtype)
    return None


def _is_for(call: Call, kind: str) -> bool:
    """True if a default of this kind matches the given values: the standard has defaults for all kinds."""
    return call.attribute(f"values_{kind}") is not None
