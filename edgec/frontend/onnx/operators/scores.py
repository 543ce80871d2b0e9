"""Scores of classical models: transformed, and the label of the best one (ai.onnx.ml)."""

from __future__ import annotations

from math import sqrt

import numpy as np

from edgec.frontend.onnx.call import Call
from edgec.frontend.onnx.operators.activation import softmax_of
from edgec.frontend.values import Value, concat, constant, emit, numbers, select
from edgec.text import listed


def transformed(name: str, y: Value) -> Value:
    """Scores [rows, classes] after a ``post_transform``; as in onnxruntime, PROBIT alone changes a single column."""
    if name == "PROBIT":
        return _probit(y)
    if name == "NONE" or y.shape[1] == 1:
        return y
    if name == "LOGISTIC":
        return emit("sigmoid", y)
    if name == "SOFTMAX":
        return softmax_of(y, 1)
    # SOFTMAX_ZERO: a score of 0 stays, and the others are normalized among themselves.
    shown = select(emit("abs", y) > 1e-7, emit("exp", y - y.reduce("max", [1])), 0.0)
    return shown / shown.sum([1])


def transform_of(call: Call) -> str:
    """The name of the transformation; raises ModelError for one that the standard does not have."""
    name = str(call.attribute("post_transform", "NONE"))
    if name not in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"):
        raise call.error(f"post_transform {name} is not known")
    return name


def _probit(y: Value) -> Value:
    """Quantiles of the normal distribution by Winitzki's approximation of erf's inverse, as onnxruntime computes it."""
    a = 0.147
    x = y * 2.0 - 1.0
    log = emit("log", (1.0 - x) * (1.0 + x))
    half = log * 0.5 + 2 / (3.14159 * a)
    size = emit("sqrt", emit("sqrt", half * half - log * (1 / a)) - half)
    return select(x < 0.0, -size, size) * sqrt(2)


def labels_of(call: Call) -> np.ndarray:
    """The classes' numbers; where their labels are strings, the places of these, and a warning that says so."""
    names = call.attribute("classlabels_strings")
    if names:
        call.warn(f"labels are numbers, not strings: from 0 on, those of {listed(map(str, names))}")
        return np.arange(len(names))
    for name in ("classlabels_int64s", "classlabels_ints"):
        if call.attribute(name):
            return np.asarray(call.attribute(name), np.int64)
    raise call.error("it has no labels of classes")


def best(y: Value, labels: np.ndarray) -> Value:
    """The label of the greatest score of each row, the first one among equals."""
    places = constant(numbers(y.shape[1]))
    is_best = emit("eq", y, y.reduce("max", [1]))
    first = select(is_best, places, y.shape[1] - 1).reduce("min", [1], keep=False)
    return constant(labels).gather(first, 0)


def either(first: Value, labels: np.ndarray) -> Value:
    """The first of two labels where ``first`` [rows, 1] holds, and the second elsewhere."""
    return select(first.squeeze(1), constant(labels[0]), constant(labels[1]))


def of_two(name: str, y: Value, complement: bool) -> Value:
    """Scores [rows, 2] of one score [rows, 1]: ``complement`` (1 - y) or its negative, and itself; transformed."""
    if name == "LOGISTIC":
        return concat([emit("sigmoid", -y), emit("sigmoid", y)], 1)
    y = concat([1.0 - y if complement else -y, y], 1)
    return _probit(y) if name == "PROBIT" else y
