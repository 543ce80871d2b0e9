"""Ensembles of decision trees (ai.onnx.ml): the leaves that the trees end in, and what these vote for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.operators.classical import ML
from edgec.frontend.onnx.operators.scores import best, either, labels_of, of_two, transform_of, transformed
from edgec.frontend.values import Value, check_table, constant, emit, select
from edgec.ir.types import DTYPES

#: Comparisons of a value with a node's threshold, in the standard's order, and the test for membership of a set.
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_AT_MOST, _LESS, _, _GREATER, _EQUAL, _DIFFERENT, _MEMBER = range(7)
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees as tables over their nodes: all branches are numbered first, then all leaves."""

    roots: np.ndarray
    modes: np.ndarray  # of the branches, as are the next three
    features: np.ndarray
    splits: np.ndarray
    missing: np.ndarray  # NaN counts as true
    true: np.ndarray  # the node to go to; of the branches, like false
    false: np.ndarray
    votes: np.ndarray  # [leaf, target]; NaN where the leaf does not vote
    members: tuple[np.ndarray, ...] = ()  # one set for each node of mode BRANCH_MEMBER, in order

    @property
    def branches(self) -> int:
        return len(self.modes)


@onnx("TreeEnsemble", domain=ML)
def tree_ensemble(call: Call) -> Value:
    forest = _of_roots(call)
    y = _aggregated(
        _walked(call, forest, _numbers(call[0])), forest, _named(call, "aggregate_function", _AGGREGATES, 1)
    )
    return transformed(_named(call, "post_transform", _TRANSFORMS, 0), y)


@onnx("TreeEnsembleRegressor", domain=ML)
def tree_regressor(call: Call) -> Value:
    forest = _of_nodes(call, "target", int(call.attribute("n_targets", 1)))
    y = _aggregated(_walked(call, forest, _numbers(call[0])), forest, call.attribute("aggregate_function", "SUM"))
    return transformed(transform_of(call), y + _base(call, forest)).cast("f32")


@onnx("TreeEnsembleClassifier", domain=ML)
def tree_classifier(call: Call) -> tuple[Value, Value]:
    """Label and scores; trees that only vote for one of two classes give the score of the second one."""
    labels = labels_of(call)
    ids = set(call.required("class_ids"))
    if len(labels) == 2 and ids == {1}:
        raise call.error("trees that vote for the second of two classes alone are not supported", "number it 0")
    is_one = len(labels) == 2 and ids == {0}
    forest = _of_nodes(call, "class", 1 if is_one else len(labels))
    y = _aggregated(_walked(call, forest, _numbers(call[0])), forest, "SUM") + _base(call, forest)
    transform = transform_of(call)
    if y.shape[1] > 1:
        return best(y, labels), transformed(transform, y).cast("f32")
    if len(labels) == 1 or transform == "PROBIT":
        raise call.error("one score of a single class, or transformed by PROBIT, is not supported")
    is_positive = bool((forest.votes >= 0).all())
    return either(y <= (0.5 if is_positive else 0.0), labels), of_two(transform, y, is_positive).cast("f32")


def _numbers(x: Value) -> Value:
    """Features [rows, features] as floats; a vector is one row."""
    x = x.unsqueeze(0) if x.rank == 1 else x
    return x if x.dtype in ("f32", "f64") else x.cast("f32")


def _named(call: Call, attribute: str, names: tuple[str, ...], default: int) -> str:
    """A numbered setting by its name."""
    code = int(call.attribute(attribute, default))
    if not 0 <= code < len(names):
        raise call.error(f"{attribute} {code} is not known")
    return names[code]


def _precise(call: Call, name: str) -> np.ndarray:
    """An attribute that is a list of floats or a tensor (of doubles); none is an empty array."""
    tensor = call.attribute(f"{name}_as_tensor")
    if tensor is not None and np.size(tensor):
        return np.asarray(tensor)
    return np.asarray(call.attribute(name, ()), np.float32)


def _base(call: Call, forest: Forest) -> Value:
    """Terms that are added to every row."""
    base = _precise(call, "base_values")
    base = base if len(base) else np.zeros(1)
    if len(base) not in (1, forest.votes.shape[1]):
        raise call.error(f"{len(base)} base values for {forest.votes.shape[1]} scores")
    return constant(base.astype(forest.votes.dtype))


def _of_roots(call: Call) -> Forest:
    """The trees of TreeEnsemble: branches and leaves are numbered apart."""
    branches = len(call.required("nodes_featureids"))
    follow = []
    for side in ("true", "false"):
        ids = np.asarray(call.required(f"nodes_{side}nodeids"), np.int64)
        follow.append(np.where(np.asarray(call.required(f"nodes_{side}leafs"), bool), ids + branches, ids))
    ids = np.asarray(call.required("leaf_targetids"), np.int64)
    weights = np.asarray(call.required("leaf_weights"))
    targets = int(call.attribute("n_targets") or ids.max() + 1)
    check_table(len(ids), targets)
    votes = np.full((len(ids), targets), np.nan, weights.dtype)
    votes[np.arange(len(ids)), ids] = weights
    modes = np.asarray(call.required("nodes_modes"), np.uint8)
    missing = call.attribute("nodes_missing_value_tracks_true") or [False] * branches
    return Forest(
        np.asarray(call.required("tree_roots"), np.int64),
        modes,
        np.asarray(call.required("nodes_featureids"), np.int64),
        np.asarray(call.required("nodes_splits")),
        np.asarray(missing, bool),
        follow[0],
        follow[1],
        votes,
        _sets(call, int((modes == _MEMBER).sum())),
    )


def _sets(call: Call, count: int) -> tuple[np.ndarray, ...]:
    """The sets that nodes ask for membership of: each ends with a NaN."""
    if not count:
        return ()
    values = np.asarray(call.required("membership_values"))
    sets = tuple(s[~np.isnan(s)] for s in np.split(values, np.flatnonzero(np.isnan(values)))[:-1])
    if len(sets) != count:
        raise call.error(f"{len(sets)} sets for {count} nodes that ask for membership")
    return sets


def _of_nodes(call: Call, kind: str, targets: int) -> Forest:
    """The trees of the older operators, whose nodes have the number of their tree and their own."""
    keys = list(zip(call.required("nodes_treeids"), call.required("nodes_nodeids")))
    names = call.required("nodes_modes")
    is_leaf = np.array([name == "LEAF" for name in names])
    number = np.where(is_leaf, (~is_leaf).sum() + np.cumsum(is_leaf) - 1, np.cumsum(~is_leaf) - 1)
    places = dict(zip(keys, number.tolist()))
    branches = np.flatnonzero(~is_leaf)
    follow = []
    for side in ("true", "false"):
        ids = call.required(f"nodes_{side}nodeids")
        follow.append(np.array([places[keys[k][0], ids[k]] for k in branches], np.int64))
    weights = _precise(call, f"{kind}_weights")
    check_table(int(is_leaf.sum()), targets)
    votes = np.full((int(is_leaf.sum()), targets), np.nan, weights.dtype)
    voters = zip(call.required(f"{kind}_treeids"), call.required(f"{kind}_nodeids"), call.required(f"{kind}_ids"))
    for (tree, node, target), weight in zip(voters, weights):
        place = places[tree, node] - len(branches), target if targets > 1 else 0
        votes[place] = weight if np.isnan(votes[place]) else votes[place] + weight
    missing = call.attribute("nodes_missing_value_tracks_true") or [False] * len(keys)
    return Forest(
        _first_of_each(keys, number, set(np.concatenate(follow).tolist())),
        np.array([_MODES.index(names[k]) for k in branches], np.uint8),
        np.asarray(call.required("nodes_featureids"), np.int64)[branches],
        _precise(call, "nodes_values")[branches],
        np.asarray(missing, bool)[branches],
        follow[0],
        follow[1],
        votes,
    )


def _first_of_each(keys: list[tuple[int, int]], number: np.ndarray, below: set[int]) -> np.ndarray:
    """The root of each tree: the first of its nodes that no node leads to."""
    roots: dict[int, int] = {}
    for (tree, _), place in zip(keys, number.tolist()):
        if place not in below:
            roots.setdefault(tree, place)
    return np.array(list(roots.values()), np.int64)


def _walked(call: Call, forest: Forest, x: Value) -> Value:
    """[row, tree] the leaf that every tree ends in."""
    if not forest.branches:
        return constant(forest.roots).unsqueeze(0).broadcast(x.shape[0], len(forest.roots))
    if not 0 <= forest.features.min() <= forest.features.max() < x.shape[1]:
        raise call.error(f"a node asks for a feature beyond the {x.shape[1]} of a row")
    _check_numbers(call, forest)
    splits, nodes, first = _in_order(forest, DTYPES[x.dtype])
    depth = _depth(call, first[forest.roots], nodes)
    roots = constant(first[forest.roots].astype(np.int32))
    return emit("descend", x, roots, constant(splits), constant(nodes), depth=depth)


def _check_numbers(call: Call, forest: Forest) -> None:
    nodes = forest.branches + len(forest.votes)
    for numbers, of in ((forest.roots, "root"), (forest.true, "branch"), (forest.false, "branch")):
        if not numbers.size or not 0 <= numbers.min() <= numbers.max() < nodes:
            raise call.error(f"a {of} leads nowhere")


def _in_order(forest: Forest, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Splits and nodes as ``descend`` takes them, where every branch asks for at most; and the new numbers of nodes.

    A test for equality is two branches, one for membership two for every member.
    """
    sets = iter(forest.members)
    borders = [next(sets) if mode == _MEMBER else forest.splits[k : k + 1] for k, mode in enumerate(forest.modes)]
    counts = [len(b) * (1 if mode < _EQUAL else 2) for b, mode in zip(borders, forest.modes)]
    ends = np.cumsum(counts)
    first = np.concatenate([ends - counts, ends[-1] + np.arange(len(forest.votes))])
    splits: list[np.ndarray] = []
    nodes: list[tuple[int, int, int, int]] = []
    ways = zip(forest.modes, forest.features, first[forest.true], first[forest.false], forest.missing, borders)
    for mode, feature, true, false, missing, border in ways:
        values = border.astype(dtype)
        before = np.nextafter(values, dtype.type(-np.inf))
        if mode < _EQUAL:
            splits.extend(values if mode in (_AT_MOST, _GREATER) else before)
            below, above = (true, false) if mode in (_AT_MOST, _LESS) else (false, true)
            nodes.append((feature, below, above, true if missing else false))
            continue
        same, other = (false, true) if mode == _DIFFERENT else (true, false)
        nan = true if missing or mode == _DIFFERENT else false
        for k, (value, smaller) in enumerate(zip(values, before)):
            here = len(nodes)
            after = other if k + 1 == len(values) else here + 2
            splits.extend((value, smaller))
            nodes.extend(((feature, here + 1, after, nan), (feature, after, same, nan)))
    return np.array(splits, dtype), np.array(nodes, np.int32).reshape(-1, 4), first


def _depth(call: Call, roots: np.ndarray, nodes: np.ndarray) -> int:
    """Levels below the roots; raises ModelError where a path does not end."""
    front, depth = np.unique(roots), 0
    while (front := front[front < len(nodes)]).size:
        front = np.unique(nodes[front, 1:])
        depth += 1
        if depth > len(nodes):
            raise call.error("the branches of a tree run in a circle")
    return depth


def _aggregated(leaves: Value, forest: Forest, aggregate: str) -> Value:
    """[row, target] the votes of the leaves that the trees ended in; 0 where no tree votes."""
    neutral = {"MIN": np.inf, "MAX": -np.inf}.get(aggregate, 0.0)
    table = np.where(np.isnan(forest.votes), neutral, forest.votes).astype(forest.votes.dtype)
    votes = constant(table).gather(leaves, 0)  # [row, tree, target]
    y = votes.reduce({"MIN": "min", "MAX": "max"}.get(aggregate, "add"), [1], keep=False)
    if aggregate == "AVERAGE":
        return y * (1 / len(forest.roots))
    return select(emit("abs", y).equals(np.inf), 0.0, y) if neutral and np.isnan(forest.votes).any() else y
