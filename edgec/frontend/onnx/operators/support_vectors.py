"""Support vector machines (ai.onnx.ml)."""

from __future__ import annotations

import numpy as np

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.operators.classical import ML
from edgec.frontend.onnx.operators.classical_models import features_of
from edgec.frontend.onnx.operators.scores import best, either, labels_of, of_two, transform_of, transformed
from edgec.frontend.values import Value, check_table, clip, constant, emit, select


@onnx("SVMRegressor", domain=ML)
def svm_regressor(call: Call) -> Value:
    """The weighted sum of the kernel at all support vectors; the sign of it, where there is one class."""
    x, count = features_of(call[0]), int(call.attribute("n_supports", 0))
    weights = np.asarray(call.required("coefficients"), np.float32)
    if count:
        y = _kernel(call, x, count) @ constant(weights.reshape(count, 1))
    else:
        y = x @ constant(weights.reshape(-1, 1))
    y = y + float(call.required("rho")[0])
    return select(y > 0.0, constant(1.0, "f32"), -1.0) if call.attribute("one_class", 0) else y


@onnx("SVMClassifier", domain=ML)
def svm_classifier(call: Call) -> tuple[Value, Value]:
    """Label and scores: one a class (linear), else one for every pair of classes, which vote for the label.

    With ``prob_a`` and ``prob_b`` the scores of pairs become probabilities, and these those of the classes.
    """
    labels, x, name = labels_of(call), features_of(call[0]), transform_of(call)
    counts = call.attribute("vectors_per_class") or ()
    weights = np.asarray(call.required("coefficients"), np.float32)
    if not sum(counts):
        return _linear(call, x, weights, labels)
    if len(counts) != len(labels):
        raise call.error(f"support vectors of {len(counts)} classes, and {len(labels)} labels")
    pairs = [(i, j) for i in range(len(counts)) for j in range(i + 1, len(counts))]
    table = _by_pair(weights.reshape(len(counts) - 1, -1), counts, pairs)
    y = _kernel(call, x, sum(counts)) @ constant(table)
    y = y + constant(np.asarray(call.required("rho"), np.float32)[: len(pairs)])
    first = y > 0.0
    if call.attribute("prob_a"):
        scores = transformed(name, _probabilities(call, y, len(counts)))
    elif len(counts) == 2:
        scores = of_two(name, y, complement=name != "NONE")
    else:
        scores = transformed(name, y)
    if len(counts) == 2:
        return either(first, labels), scores
    sides = np.array([[side == c for c in range(len(counts))] for pair in pairs for side in pair], np.float32)
    won = first.cast("f32")
    votes = won @ constant(sides[0::2]) + (1.0 - won) @ constant(sides[1::2])
    return best(votes, labels), scores


def _probabilities(call: Call, y: Value, classes: int) -> Value:
    """The probabilities of classes, from the scores of pairs."""
    a, b = (np.asarray(call.required(name), np.float32) for name in ("prob_a", "prob_b"))
    pairs = classes * (classes - 1) // 2
    if not len(a) == len(b) == pairs:
        raise call.error(f"{len(a)} and {len(b)} parameters of probabilities for {pairs} pairs of classes")
    of_first = 1.0 - emit("sigmoid", y * constant(a) + constant(b))
    return emit("pairwise_coupling", clip(of_first, 1e-7, 1 - 1e-7), classes=classes)


def _linear(call: Call, x: Value, weights: np.ndarray, labels: np.ndarray) -> tuple[Value, Value]:
    y = x @ constant(np.ascontiguousarray(weights.reshape(len(labels), -1).T)) + float(call.required("rho")[0])
    label = best(y, labels)
    if len(labels) == 2:  # the second class wins where any score is high enough
        high = y.reduce("max", [1])
        label = select((high >= 0.5 if (weights >= 0).all() else high > 0.0).squeeze(1), constant(labels[1]), label)
    return label, transformed(transform_of(call), y)


def _by_pair(weights: np.ndarray, counts: tuple[int, ...], pairs: list[tuple[int, int]]) -> np.ndarray:
    """[vector, pair] the coefficients: a class has those against the others, without itself, in its columns."""
    ends = np.cumsum(counts)
    check_table(int(ends[-1]), len(pairs))
    table = np.zeros((int(ends[-1]), len(pairs)), np.float32)
    for k, (i, j) in enumerate(pairs):
        of_i, of_j = slice(ends[i] - counts[i], ends[i]), slice(ends[j] - counts[j], ends[j])
        table[of_i, k] = weights[j - 1, of_i]
        table[of_j, k] = weights[i, of_j]
    return table


def _kernel(call: Call, x: Value, count: int) -> Value:
    """[row, vector] the kernel function of every row and every support vector."""
    vectors = np.asarray(call.required("support_vectors"), np.float32).reshape(count, -1)
    gamma, offset, degree = call.attribute("kernel_params") or (0.0, 0.0, 0.0)
    kind = call.attribute("kernel_type", "LINEAR")
    if kind == "RBF":
        apart = x.unsqueeze(1) - constant(vectors)
        return emit("exp", (apart * apart).sum([2], keep=False) * -gamma)
    y = x @ constant(np.ascontiguousarray(vectors.T))
    if kind == "LINEAR":
        return y
    y = y * gamma + offset
    if kind == "SIGMOID":
        return emit("tanh", y)
    if kind != "POLY":
        raise call.error(f"kernel_type {kind} is not known")
    return emit("pow", y, degree)
