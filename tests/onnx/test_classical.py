"""Operators of ai.onnx.ml on numbers, against the standard's own implementation and onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs
from onnx import TensorProto, helper
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator

from edgec.errors import ModelError
from edgec.frontend.onnx import import_model
from edgec.ir import evaluate
from edgec.rewrite import simplify


def model(operator: str, x: np.ndarray, version: int, **attributes: Any) -> Any:
    node = helper.make_node(operator, ["x"], ["y"], "n", domain="ai.onnx.ml", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", kind, x.shape)], [helper.make_empty_tensor_value_info("y")]
    )
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", version)]
    )
    made.ir_version = 10
    return made


@pytest.mark.parametrize(
    "version, x, attributes",
    [
        (
            2,
            np.array([3, 1, 9, 3]),
            {"keys_int64s": [1, 3, 4], "values_floats": [0.5, 1.5, 2.5], "default_float": -7.0},
        ),
        (4, np.array([3, 1, 9, 3]), {"keys_int64s": [1, 3, 4], "values_int64s": [10, 30, 40]}),
        *(
            (
                version,
                np.array([[0.5, np.nan], [2.5, 7]], np.float32),
                {"keys_floats": [2.5, 0.5, np.nan], "values_int64s": [1, 2, 3], "default_int64": 99},
            )
            for version in (2, 4)
        ),
    ],
)
def test_label_encoder(version: int, x: np.ndarray, attributes: dict[str, Any]) -> None:
    made = model("LabelEncoder", x, version, **attributes)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": x})
    got = evaluate.run(import_model(made), {"x": x})["y"]
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def forest(trees: int, features: int, targets: int, modes: tuple[int, ...], missing: bool = False) -> dict[str, Any]:
    """Random trees of several depths, in the standard's lists."""
    nodes: dict[str, list[Any]] = {
        k: [] for k in ("feature", "split", "mode", "true", "false", "true_leaf", "false_leaf")
    }
    leaves: list[tuple[int, float]] = []
    members: list[float] = []

    def branch(depth: int) -> int:
        place = len(nodes["feature"])
        mode = int(RANDOM.choice(modes))
        nodes["feature"].append(int(RANDOM.integers(features)))
        nodes["split"].append(float(RANDOM.integers(-2, 3)))
        nodes["mode"].append(mode)
        for side in ("true", "false"):
            nodes[side].append(0)
            nodes[f"{side}_leaf"].append(1)
        if mode == 6:  # the sets stand in the order in which the nodes are met
            members.extend([*map(float, RANDOM.choice([-2, -1, 1, 2, 3], 2, replace=False)), np.nan])
        for side in ("true", "false"):
            if depth and RANDOM.random() < 0.8:
                nodes[f"{side}_leaf"][place] = 0
                nodes[side][place] = branch(depth - 1)
            else:
                nodes[side][place] = len(leaves)
                leaves.append((int(RANDOM.integers(targets)), float(RANDOM.standard_normal())))
        return place

    roots = [branch(int(RANDOM.integers(1, 5))) for _ in range(trees)]
    made: dict[str, Any] = {
        "tree_roots": roots,
        "n_targets": targets,
        "nodes_featureids": nodes["feature"],
        "nodes_truenodeids": nodes["true"],
        "nodes_falsenodeids": nodes["false"],
        "nodes_trueleafs": nodes["true_leaf"],
        "nodes_falseleafs": nodes["false_leaf"],
        "leaf_targetids": [t for t, _ in leaves],
        "nodes_splits": tensor(nodes["split"]),
        "nodes_modes": helper.make_tensor("m", TensorProto.UINT8, [len(nodes["mode"])], nodes["mode"]),
        "leaf_weights": tensor([w for _, w in leaves]),
    }
    if members:
        made["membership_values"] = tensor(members)
    if missing:
        made["nodes_missing_value_tracks_true"] = [int(v) for v in RANDOM.integers(0, 2, len(nodes["mode"]))]
    return made


def tensor(values: list[float]) -> TensorProto:
    return helper.make_tensor("t", TensorProto.FLOAT, [len(values)], values)


@pytest.mark.parametrize("modes", [(0,), (1, 2, 3), (4, 5), (0, 6)], ids=str)
def test_trees(modes: tuple[int, ...], tmp_path: Path) -> None:
    x = RANDOM.integers(-3, 4, (40, 3)).astype(np.float32)
    x[RANDOM.random(x.shape) < 0.1] = np.nan
    settings = forest(5, 3, 4, modes, missing=True)
    made = model("TreeEnsemble", x, 5, **settings)
    (want,) = ReferenceEvaluator(made).run(None, {"x": x})
    graph = import_model(made)
    np.testing.assert_allclose(evaluate.run(graph, {"x": x})["y"], want, rtol=1e-5, atol=1e-6)
    net = compile_graphs({"trees": simplify(graph)[0]}, tmp_path)["trees"]
    assert isinstance(net, Compiled)
    np.testing.assert_allclose(net({"x": x})["y"], want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("combine, name", list(enumerate(("mean", "sum", "min", "max"))))
def test_votes(combine: int, name: str) -> None:
    """The votes of trees, one target: against the trees one by one."""
    x = RANDOM.integers(-3, 4, (20, 3)).astype(np.float32)
    settings = forest(4, 3, 1, (0,))
    alone = [{**settings, "tree_roots": [root]} for root in settings["tree_roots"]]
    each = [evaluate.run(import_model(model("TreeEnsemble", x, 5, **s)), {"x": x})["y"] for s in alone]
    made = model("TreeEnsemble", x, 5, **settings, aggregate_function=combine)
    want = getattr(np, name)(np.stack(each), axis=0)
    np.testing.assert_allclose(evaluate.run(import_model(made), {"x": x})["y"], want, rtol=1e-5, atol=1e-6)


def test_branches_in_a_circle() -> None:
    x = np.zeros((2, 3), np.float32)
    settings = forest(1, 3, 1, (0,))
    nowhere = [0] * len(settings["nodes_trueleafs"])
    settings |= {"nodes_trueleafs": nowhere, "nodes_truenodeids": nowhere}
    with pytest.raises(ModelError, match="circle"):
        import_model(model("TreeEnsemble", x, 5, **settings))


def test_features_by_open_positions() -> None:
    made = parse_model(
        """<ir_version: 8, opset_import: ["": 13, "ai.onnx.ml": 1]>
        net (float[rows, 3] x) => (int64[rows] y)
        <int64[3] names = {7, -2, 5}, int64[1] flat = {-1}> {
            best = ArgMax <axis = 1> (x)
            found = ai.onnx.ml.ArrayFeatureExtractor (names, best)
            y = Reshape (found, flat)
        }"""
    )
    graph = import_model(made, dims={"rows": (1, 4, 1)})
    x = np.array([[0, 2, 1], [0, 0, 7], [3, 0, 0]], np.float32)
    for rows in (3, 1):
        assert evaluate.run(graph, {"x": x[:rows]})["y"].tolist() == [-2, 5, 7][:rows]
