"""Linear models and the preparation of features (ai.onnx.ml)."""

from __future__ import annotations

from math import prod

import numpy as np

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.operators.classical import ML
from edgec.frontend.onnx.operators.scores import best, either, labels_of, of_two, transform_of, transformed
from edgec.frontend.onnx.strings import Strings, of_one_width
from edgec.frontend.values import Value, concat, constant, emit, select


def features_of(x: Value) -> Value:
    """[rows, features] in fp32; a vector is one row."""
    x = x.unsqueeze(0) if x.rank == 1 else x
    return x.cast("f32")


def _linear(call: Call, rows: int) -> Value:
    x = features_of(call[0])
    w = np.asarray(call.required("coefficients"), np.float32).reshape(rows, -1)
    y = x @ constant(np.ascontiguousarray(w.T))
    intercepts = call.attribute("intercepts")
    return y + constant(np.asarray(intercepts, np.float32)) if intercepts else y


@onnx("LinearRegressor", domain=ML)
def linear_regressor(call: Call) -> Value:
    return transformed(transform_of(call), _linear(call, int(call.attribute("targets", 1))))


@onnx("LinearClassifier", domain=ML)
def linear_classifier(call: Call) -> tuple[Value, Value]:
    """Label and scores; one row of coefficients decides between two classes."""
    labels = labels_of(call)
    rows = len(call.required("coefficients")) // call[0].shape[-1]
    y = _linear(call, rows)
    if rows == 1 and len(labels) == 2:
        return either(y <= 0.0, labels), of_two(transform_of(call), y, complement=True)
    return best(y, labels), transformed(transform_of(call), y)


@onnx("Scaler", domain=ML)
def scaler(call: Call) -> Value:
    """(x - offset) * scale, with one number or one a feature."""
    x = call[0].cast("f32")
    offset, scale = (
        constant(np.asarray(call.attribute(n) or [d], np.float32)) for n, d in (("offset", 0), ("scale", 1))
    )
    return (x - offset) * scale


@onnx("Normalizer", domain=ML)
def normalizer(call: Call) -> Value:
    """Rows over their greatest element, the sum of their absolute values, or their length; zero rows stay."""
    x, kind = call[0].cast("f32"), call.attribute("norm", "MAX")
    last = [x.rank - 1]
    if kind == "MAX":
        norm = x.reduce("max", last)
    elif kind == "L1":
        norm = emit("abs", x).sum(last)
    elif kind == "L2":
        norm = emit("sqrt", (x * x).sum(last))
    else:
        raise call.error(f"norm {kind} is not known", "MAX, L1 and L2 are")
    return select(norm.equals(0.0), x, x / select(norm.equals(0.0), 1.0, norm))


@onnx("Imputer", domain=ML)
def imputer(call: Call) -> Value:
    """Numbers in the place of missing ones: one for all, or one a feature."""
    x = call[0]
    kind, dtype = ("floats", np.float32) if x.is_float else ("int64s", np.int64)
    filled = constant(np.asarray(call.required(f"imputed_value_{kind}"), dtype).astype(dtype)).cast(x.dtype)
    filled = filled.reshape() if prod(filled.shape) == 1 else filled
    missing = call.attribute(f"replaced_value_{kind[:-1]}", 0)
    is_missing = emit("isnan", x) if np.isnan(missing) else x.equals(missing)
    return select(is_missing, filled, x)


@onnx("FeatureVectorizer", domain=ML)
def feature_vectorizer(call: Call) -> Value:
    """All operands' features side by side, each cut or filled up with zeros to its length."""
    parts = [features_of(v) for v in call.operands]
    lengths = call.attribute("inputdimensions") or [v.shape[1] for v in parts]
    fitted = [v.pad((0, 0), (0, n - v.shape[1])) for v, n in zip(parts, lengths)]
    return concat(fitted, 1)


@onnx("OneHotEncoder", domain=ML)
def one_hot_encoder(call: Call) -> Value:
    """A new last dimension, with a 1 where the element is that category."""
    if call.attribute("cats_strings"):
        words, known = of_one_width([call.strings(0), Strings(constant(call.texts("cats_strings")))])
        return words.unsqueeze(-2).equals(known).reduce("and", [-1], keep=False).cast("f32")
    x, categories = call[0], call.required("cats_int64s")
    x = emit("trunc", x).cast("i64") if x.is_float else x.cast("i64")
    return x.unsqueeze(-1).equals(constant(np.asarray(categories, np.int64))).cast("f32")


@onnx("ZipMap", domain=ML)
def zip_map(call: Call) -> Value:
    """The probabilities as they are, an array in the place of a list of dictionaries."""
    call.warn("the result is an array [rows, classes], in the order of the labels, not a list of dictionaries")
    return call[0]
