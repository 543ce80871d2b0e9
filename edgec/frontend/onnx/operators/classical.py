"""Classical machine learning (ai.onnx.ml), as far as it is about numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.operators.activation import softmax_of
from edgec.frontend.values import Value, constant, emit, select
from edgec.ir.types import DTYPES

ML = "ai.onnx.ml"


@onnx("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(call: Call) -> Value:
    """Columns of the last dimension; the result is a matrix even where the operand is a vector."""
    x, chosen = call[0], call[1]
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


@onnx("TreeEnsemble", domain=ML)
def tree_ensemble(call: Call) -> Value:
    """All trees go down one level at a time: where they stand is an index, and each level a gather and a comparison."""
    x, get = call[0], call.attribute
    branches = len(call.required("nodes_featureids"))
    roots = np.asarray(call.required("tree_roots"), np.int64)
    # Leaves are numbered behind the branches, and lead to themselves.
    targets = np.asarray(call.required("leaf_targetids"), np.int64)
    leaves = np.arange(len(targets)) + branches
    follow = []
    for side in ("true", "false"):
        ids = np.asarray(call.required(f"nodes_{side}nodeids"), np.int64)
        is_leaf = np.asarray(call.required(f"nodes_{side}leafs"), bool)
        follow.append(np.concatenate([np.where(is_leaf, ids + branches, ids), leaves]))
    depth = _depth(call, roots, follow[0], follow[1], branches)
    at: Value = constant(roots).unsqueeze(0).broadcast(x.shape[0], len(roots))
    tables = _Tables(call, x.dtype)
    for _ in range(depth):
        at = select(tables.holds(x, at), constant(follow[0]).gather(at, 0), constant(follow[1]).gather(at, 0))
    return _voted(call, at, branches, targets, len(roots), int(get("n_targets") or targets.max() + 1))


def _depth(call: Call, roots: np.ndarray, true: np.ndarray, false: np.ndarray, branches: int) -> int:
    """Levels below the roots; raises ModelError where a path does not end."""
    front, depth = np.unique(roots), 0
    if front.size and not 0 <= front.min() <= front.max() < branches:
        raise call.error("a root is no node")
    while (front := front[front < branches]).size:
        front = np.unique(np.concatenate([true[front], false[front]]))
        depth += 1
        if depth > branches or front.min() < 0 or front.max() >= len(true):
            raise call.error("the branches of a tree run in a circle, or lead nowhere")
    return depth


class _Tables:
    """The comparison of every tree node, as constant tables indexed by the node's number."""

    def __init__(self, call: Call, dtype: str) -> None:
        leaves = len(call.required("leaf_targetids"))

        def table(values: Any, kind: Any) -> np.ndarray:
            return np.concatenate([np.asarray(values, kind), np.zeros(leaves, kind)])

        self.call = call
        self.modes = table(call.required("nodes_modes"), np.uint8)
        self.features = constant(table(call.required("nodes_featureids"), np.int64))
        self.splits = constant(table(call.required("nodes_splits"), DTYPES[dtype]))
        missing = call.attribute("nodes_missing_value_tracks_true")
        self.missing = None if missing is None or not any(missing) else constant(table(missing, np.bool_))
        self.members = self._members(DTYPES[dtype])

    def _members(self, dtype: np.dtype) -> Value | None:
        """[node, element] the sets that nodes of mode 6 ask for, filled up with NaN, which nothing equals."""
        nodes = np.flatnonzero(self.modes == 6)
        if not nodes.size:
            return None
        values = np.asarray(self.call.required("membership_values"), dtype)
        sets = np.split(values, np.flatnonzero(np.isnan(values)))[:-1]
        sets = [s[~np.isnan(s)] for s in sets]
        if len(sets) != len(nodes):
            raise self.call.error(f"{len(sets)} sets for {len(nodes)} nodes that ask for membership")
        table = np.full((len(self.modes), max(map(len, sets))), np.nan, dtype)
        for node, members in zip(nodes, sets):
            table[node, : len(members)] = members
        return constant(table)

    def holds(self, x: Value, at: Value) -> Value:
        """Results of the comparison at the current node of each tree, [row, tree]."""
        value = emit("gather_elements", x, self.features.gather(at, 0), axis=1)
        split = self.splits.gather(at, 0)
        result: Value | None = None
        mode = constant(self.modes).gather(at, 0)
        for code in np.unique(self.modes[: len(self.call.required("nodes_modes"))]):
            if code == 6:
                assert self.members is not None
                one = value.unsqueeze(-1).equals(self.members.gather(at, 0)).reduce("or", [-1], keep=False)
            else:
                one = emit(("le", "lt", "ge", "gt", "eq", "ne")[code], value, split)
            result = one if result is None else select(mode.equals(int(code)), one, result)
        assert result is not None
        return result if self.missing is None else result | (emit("isnan", value) & self.missing.gather(at, 0))


def _voted(call: Call, at: Value, branches: int, targets: np.ndarray, trees: int, count: int) -> Value:
    """The weights of the leaves the trees ended in, combined for every target."""
    weights = np.asarray(call.required("leaf_weights"))
    combine = call.attribute("aggregate_function", 1)
    if combine > 1 and count > 1:
        raise call.error("least and greatest votes for several targets are not supported")
    table = np.zeros((len(targets), count), weights.dtype)
    table[np.arange(len(targets)), targets] = weights
    votes = constant(table).gather(at - branches, 0)  # [row, tree, target]
    y = votes.reduce(("add", "add", "min", "max")[combine], [1], keep=False)
    y = y * (1 / trees) if combine == 0 else y
    transform = call.attribute("post_transform", 0)
    if transform not in (0, 1, 2):
        raise call.error(f"post_transform {transform} is not supported", "0 (none), 1 (softmax) and 2 (logistic) are")
    return (y, softmax_of(y, 1), emit("sigmoid", y))[transform] if transform else y
