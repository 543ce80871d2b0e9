"""Encoding and selection of features (ai.onnx.ml), as far as it is about numbers."""

from __future__ import annotations

import numpy as np

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.indices import require_inside
from edgec.frontend.values import Value, constant, emit, select
from edgec.ir.types import DTYPES

ML = "ai.onnx.ml"


@onnx("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(call: Call) -> Value:
    """Columns of the last dimension; the result is a matrix even where the operand is a vector."""
    x, chosen = call[0], call[1]
    require_inside(call, chosen, x.shape[-1], 0)
    y = x.gather(chosen.reshape(chosen.node.type.elements), x.rank - 1)
    return y.reshape(1, y.shape[0]) if y.rank == 1 else y


@onnx("Binarizer", domain=ML)
def binarizer(call: Call) -> Value:
    x = call[0]
    return emit("gt", x, call.attribute("threshold", 0.0)).cast(x.dtype)


@onnx("LabelEncoder", domain=ML)
def label_encoder(call: Call) -> Value:
    """Values in the place of keys, and a default in the place of everything else."""
    keys, values, default = (_table(call, kind) for kind in ("keys", "values", "default"))
    x = call[0]
    if keys is None or values is None or keys.dtype.kind not in "iuf" or values.dtype.kind not in "iuf":
        raise call.error("labels that are strings are not supported", "encode them in your own code")
    if default is None:
        default = np.zeros((), values.dtype) if values.dtype.kind == "f" else np.asarray(-1, values.dtype)
    places: Value = constant(np.arange(len(keys)))
    same = x.unsqueeze(-1).equals(constant(keys.astype(DTYPES[x.dtype])))
    is_nan = np.isnan(keys.astype(np.float64))
    if is_nan.any() and x.is_float and call.opset >= 4:  # since then a key that is NaN stands for every NaN
        same = same | (emit("isnan", x).unsqueeze(-1) & constant(is_nan))
    first = select(same, places, len(keys)).reduce("min", [-1], keep=False)
    known = constant(np.append(values, default.reshape(-1)[:1]).astype(values.dtype))
    return known.gather(first, 0)


def _table(call: Call, what: str) -> np.ndarray | None:
    """Keys, values or the default, whichever of the attributes for them is there."""
    for kind, dtype in (("tensor", None), ("int64s", np.int64), ("floats", np.float32), ("strings", np.str_)):
        name = f"{what}_{kind if what != 'default' else kind.rstrip('s')}"
        given = call.attribute(name)
        if given is not None and (what != "default" or _is_for(call, kind)):
            return np.asarray(given, dtype)
    return None


def _is_for(call: Call, kind: str) -> bool:
    """True if a default of this kind matches the given values: the standard has defaults for all kinds."""
    return call.attribute(f"values_{kind}") is not None
