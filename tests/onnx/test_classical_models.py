"""Linear models and the preparation of features (ai.onnx.ml) against onnxruntime, over random attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs
from onnx import TensorProto, helper

from edgec.check.reference import Reference
from edgec.frontend.onnx import import_model
from edgec.frontend.onnx.model import read
from edgec.ir import evaluate
from edgec.rewrite import simplify

TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")


def model(operator: str, inputs: list[np.ndarray], outputs: int, attributes: dict[str, Any]) -> onnx.ModelProto:
    names = [f"x{k}" for k in range(len(inputs))]
    node = helper.make_node(operator, names, [f"y{k}" for k in range(outputs)], domain="ai.onnx.ml", **attributes)
    given = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, inputs)
    ]
    results = [helper.make_empty_tensor_value_info(n) for n in node.output]
    graph = helper.make_graph([node], "g", given, results)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def some(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def floats(*shape: int) -> list[float]:
    return [float(v) for v in some(*shape).reshape(-1)]


def linear(seed: int) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    features, rows = (int(n) for n in RANDOM.integers(1, 8, 2))
    x = some(int(RANDOM.integers(1, 9)), features)
    x = x if seed % 3 or seed % 2 else RANDOM.integers(-5, 5, x.shape)
    weights = {"coefficients": floats(rows, features), "intercepts": floats(rows)}
    if seed % 2:
        return model("LinearRegressor", [x], 1, {**weights, "targets": rows}), [x]
    labels = [int(v) for v in RANDOM.permutation(30)[: max(rows, 2)]]
    transform = TRANSFORMS[seed // 2 % (2 if rows == 1 else 4)]
    return model("LinearClassifier", [x], 2, {**weights, "classlabels_ints": labels, "post_transform": transform}), [x]


def prepared(seed: int) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    x = some(int(RANDOM.integers(1, 6)), int(RANDOM.integers(1, 7)))
    x[RANDOM.random(x.shape) < 0.2] = 0
    n = x.shape[1]
    if seed % 6 == 0:
        return model("Scaler", [x], 1, {"offset": floats(n), "scale": floats(n)}), [x]
    if seed % 6 == 1:
        return model("Normalizer", [x], 1, {"norm": ("MAX", "L1", "L2")[seed // 6 % 3]}), [np.abs(x)]
    if seed % 6 == 2:
        x[x == 0] = np.nan
        settings = {"imputed_value_floats": floats(n if seed // 6 % 2 else 1), "replaced_value_float": float("nan")}
        return model("Imputer", [x], 1, settings), [x]
    if seed % 6 == 3:
        whole = RANDOM.integers(0, 4, x.shape)
        return model("Imputer", [whole], 1, {"imputed_value_int64s": [7], "replaced_value_int64": 2}), [whole]
    if seed % 6 == 4:
        inputs = [x, some(x.shape[0], 3)]
        return model("FeatureVectorizer", inputs, 1, {"inputdimensions": [n, 3]}), inputs
    whole = RANDOM.integers(0, 5, x.shape)
    return model("OneHotEncoder", [whole], 1, {"cats_int64s": [3, 0, 4], "zeros": 1}), [whole]


MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def trees(seed: int) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    """A random forest in the lists of the older operators: nodes in no order, all comparisons, NaN among the data."""
    kind, count = "class" if seed % 2 else "target", (2, 1, 3)[seed % 3]
    features = int(RANDOM.integers(1, 5))
    rows: list[tuple[int, ...]] = []
    votes: list[tuple[int, int, int, float]] = []

    def grown(tree: int, node: int, depth: int) -> int:
        if depth == 0 or RANDOM.random() < 0.2:
            rows.append((tree, node, 0, 0, 6, 0, 0, 0))
            for target in range(count) if count == 3 or kind == "target" else [0]:
                votes.append((tree, node, target, float(RANDOM.random() - (seed // 6 % 2) * 0.5)))
            return node + 1
        right = grown(tree, node + 1, depth - 1)
        number = (int(RANDOM.integers(features)), int(RANDOM.integers(-2, 3)))
        rows.append((tree, node, *number, int(RANDOM.integers(6)), node + 1, right, int(RANDOM.integers(2))))
        return grown(tree, right, depth - 1)

    for tree in range(4):
        grown(tree, 0, tree)
    rows.sort(key=lambda r: (r[0], r[1]))
    lists = [list(column) for column in zip(*rows)]
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    settings: dict[str, Any] = {f"nodes_{n}": v for n, v in zip((*names, "missing_value_tracks_true"), lists)}
    settings["nodes_values"] = [float(v) for v in settings["nodes_values"]]
    settings["nodes_modes"] = [(*MODES, "LEAF")[m] for m in settings["nodes_modes"]]
    for name, column in zip(("treeids", "nodeids", "ids", "weights"), zip(*votes)):
        settings[f"{kind}_{name}"] = list(column)
    settings["base_values"] = floats(count if count == 3 or kind == "target" else 1)
    x = RANDOM.integers(-3, 4, (30, features)).astype(np.float32)
    x[RANDOM.random(x.shape) < 0.1] = np.nan
    if kind == "class":
        labels = [int(v) for v in RANDOM.permutation(30)[: max(count, 2)]]
        transform = TRANSFORMS[seed // 4 % (4 if count == 3 else 2)]
        return model(
            "TreeEnsembleClassifier", [x], 2, {**settings, "classlabels_int64s": labels, "post_transform": transform}
        ), [x]
    settings |= {"n_targets": count, "aggregate_function": ("SUM", "AVERAGE", "MIN", "MAX")[seed // 2 % 4]}
    return model("TreeEnsembleRegressor", [x], 1, settings), [x]


def supported(seed: int) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    """Support vector machines: regression, one class, more classes (some with probabilities), and linear ones."""
    features, classes = int(RANDOM.integers(1, 6)), int(RANDOM.integers(2, 5))
    x = some(20, features)
    kernel = {
        "kernel_type": ("RBF", "LINEAR", "POLY", "SIGMOID")[seed % 4], "kernel_params": [0.4, 0.3, float(seed % 3 + 1)],
    }  # fmt: skip
    if seed % 3 == 0:
        vectors = {"support_vectors": floats(5, features), "coefficients": floats(5), "n_supports": 5}
        return model("SVMRegressor", [x], 1, {**kernel, **vectors, "rho": floats(1), "one_class": seed // 3 % 2}), [x]
    labels = {"classlabels_ints": [int(v) for v in RANDOM.permutation(30)[:classes]]}
    transform = {"post_transform": TRANSFORMS[seed // 3 % 4]}
    if seed % 3 == 1:
        weights = {"coefficients": floats(classes, features), "rho": floats(1)}
        return model("SVMClassifier", [x], 2, {**kernel, **weights, **labels, **transform}), [x]
    counts = [int(n) for n in RANDOM.integers(1, 4, classes)]
    weights = {"coefficients": floats(classes - 1, sum(counts)), "rho": floats(classes * (classes - 1) // 2)}
    vectors = {"support_vectors": floats(sum(counts), features), "vectors_per_class": counts}
    if seed % 2:
        weights |= {"prob_a": floats(classes * (classes - 1) // 2), "prob_b": floats(classes * (classes - 1) // 2)}
    return model("SVMClassifier", [x], 2, {**kernel, **weights, **vectors, **labels, **transform}), [x]


KINDS = {"linear": linear, "prepared": prepared, "trees": trees, "supported": supported}
CASES = [(kind, seed) for kind in KINDS for seed in range(24)]


def wanted(made: onnx.ModelProto, given: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, given))


def assert_agree(got: dict[str, np.ndarray], want: list[np.ndarray]) -> None:
    for k, y in enumerate(want):
        found = got[f"y{k}"]
        assert found.dtype == y.dtype and found.shape == y.shape
        if y.dtype.kind == "i":
            np.testing.assert_array_equal(found, y)
        else:
            np.testing.assert_allclose(found, y, rtol=0, atol=1e-4 * max(float(np.abs(y).max(initial=0)), 1e-3))


@pytest.mark.parametrize("kind, seed", CASES)
def test_agrees_with_onnxruntime(kind: str, seed: int) -> None:
    made, inputs = KINDS[kind](seed)
    given = {f"x{k}": x for k, x in enumerate(inputs)}
    assert_agree(evaluate.run(simplify(import_model(made))[0], given), wanted(made, given))


def test_compiled(tmp_path: Path) -> None:
    drawn = {f"{kind}{seed}": KINDS[kind](seed) for kind in KINDS for seed in range(6)}
    graphs = {name: simplify(import_model(made))[0] for name, (made, _) in drawn.items()}
    compiled = compile_graphs(graphs, tmp_path)
    for name, (made, inputs) in drawn.items():
        given, run = {f"x{k}": x for k, x in enumerate(inputs)}, compiled[name]
        assert isinstance(run, Compiled), name
        assert_agree(run(given), wanted(made, given))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_trees_that_vote_for_either_of_two_classes(transform: str) -> None:
    """A column of scores each, as of more classes."""
    x = some(40, 2)
    made = model("TreeEnsembleClassifier", [x], 2, {
        "nodes_treeids": [0] * 5, "nodes_nodeids": [0, 1, 2, 3, 4], "nodes_featureids": [0, 1, 0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"], "nodes_values": [0.2, 0.0, 0, 0, 0],
        "nodes_truenodeids": [1, 3, 0, 0, 0], "nodes_falsenodeids": [2, 4, 0, 0, 0], "class_treeids": [0] * 6,
        "class_nodeids": [2, 2, 3, 3, 4, 4], "class_ids": [0, 1] * 3,
        "class_weights": [0.5, 0.25, 0.25, 1.5, 2.0, 0.75], "classlabels_int64s": [7, 3], "post_transform": transform,
    })  # fmt: skip
    leaf = np.where(x[:, 0] > 0.2, 0, np.where(x[:, 1] > 0, 2, 1))
    sums = np.array([[0.5, 0.25], [0.25, 1.5], [2.0, 0.75]])[leaf]
    powers = np.exp(sums)
    shares = {"NONE": sums, "LOGISTIC": powers / (1 + powers), "SOFTMAX": powers / powers.sum(1, keepdims=True)}
    got = evaluate.run(import_model(made), {"x0": x})
    np.testing.assert_array_equal(got["y0"], np.array([7, 3])[sums.argmax(1)])
    np.testing.assert_allclose(got["y1"], shares[transform], rtol=1e-5)


@pytest.mark.parametrize("operator", ["LinearClassifier", "TreeEnsembleClassifier"])
def test_labels_that_are_strings_are_numbers(operator: str) -> None:
    """Their order is that of the attribute, also beside the reference, whose labels are strings."""
    x, labels = some(9, 3), ["night", "day", "dusk"]
    attributes: dict[str, Any] = {"coefficients": floats(9), "intercepts": floats(3)}
    if operator == "TreeEnsembleClassifier":
        attributes = {
            "nodes_treeids": [0] * 5, "nodes_nodeids": [0, 1, 2, 3, 4], "nodes_featureids": [0, 1, 0, 0, 0],
            "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"], "nodes_values": [0.2, 0.0, 0, 0, 0],
            "nodes_truenodeids": [1, 3, 0, 0, 0], "nodes_falsenodeids": [2, 4, 0, 0, 0], "class_treeids": [0] * 3,
            "class_nodeids": [2, 3, 4], "class_ids": [0, 1, 2], "class_weights": [1.0, 2.0, 3.0],
        }  # fmt: skip
    made = model(operator, [x], 2, {**attributes, "classlabels_strings": labels})
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y0", TensorProto.STRING, None))
    with pytest.warns(UserWarning, match="from 0 on, those of 'night', 'day'"):
        graph = import_model(made)
    got, given = evaluate.run(graph, {"x0": x})["y0"], Reference(read(made)).run({"x0": x})["y0"]
    assert len(set(got.tolist())) > 1
    np.testing.assert_array_equal(got, given)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    assert [labels[k] for k in got] == session.run(["y0"], {"x0": x})[0].tolist()


def test_probabilities_stay_an_array() -> None:
    x = some(4, 3)
    made = model("ZipMap", [x], 1, {"classlabels_int64s": [0, 1, 2]})
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y0", TensorProto.FLOAT, None))
    with pytest.warns(UserWarning, match="not a list of dictionaries"):
        graph = import_model(made)
    np.testing.assert_array_equal(evaluate.run(graph, {"x0": x})["y0"], x)
