"""Channels that are tied together, on graphs of a few operators."""

from __future__ import annotations

import numpy as np

from edgec.compress.prune.labels import Labels, labelled
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import Type
from edgec.ops import node

X = placeholder("x", Type("f32", (1, 3, 6, 6)))


def conv(x: Node, outputs: int, groups: int = 1) -> Node:
    w = constant(np.ones((outputs, x.type.shape[1] // groups, 1, 1), np.float32))
    return node("conv", x, w, strides=(1, 1), dilations=(1, 1), groups=groups)


def labels_of(result: Node) -> Labels:
    return labelled(Graph((X,), (("y", result),)))


def sets(labels: Labels, n: Node) -> list[int]:
    found = labels.of(n)
    assert found is not None
    return [labels.groups.find(int(a)) for a in found.atoms]


def test_channels_follow_movement_and_meet_in_sums() -> None:
    a, b = conv(X, 4), conv(X, 4)
    turned = node("transpose", a, perm=(0, 2, 3, 1))
    flat = node("reshape", b, shape=(1, 4, 36))
    back = node("reshape", flat, shape=(1, 4, 6, 6))
    total = node("add", node("transpose", turned, perm=(0, 3, 1, 2)), back)
    last = conv(total, 2)
    labels = labels_of(last)
    found = labels.of(turned)
    assert found is not None and found.axis == 3 and len(found.atoms) == 4
    assert sets(labels, a) == sets(labels, b) == sets(labels, total) and len(set(sets(labels, a))) == 4
    assert not any(labels.groups.is_frozen(s) for s in sets(labels, a))
    assert all(labels.groups.is_frozen(s) for s in sets(labels, last))  # an output of the network


def test_parts_of_a_concatenation_keep_their_channels() -> None:
    a, b = conv(X, 2), conv(X, 3)
    joined = node("concat", a, b, axis=1)
    cut = node("slice", joined, starts=(0, 1, 0, 0), steps=(1, 1, 1, 1), shape=(1, 3, 6, 6))
    labels = labels_of(conv(cut, 2))
    assert sets(labels, joined) == [*sets(labels, a), *sets(labels, b)]
    assert sets(labels, cut) == sets(labels, joined)[1:4]
    beside = labels_of(conv(node("concat", a, X, axis=1), 2))  # the input has no channels that could go
    assert all(beside.groups.is_frozen(s) for s in sets(beside, a))


def test_depthwise_convolutions_and_pools_hand_channels_on() -> None:
    a = conv(X, 4)
    deep = conv(a, 4, groups=4)
    pooled = node("pool", deep, combine="max", kernel=(2, 2), strides=(2, 2), dilations=(1, 1))
    mean = node("reduce", pooled, combine="add", axes=(2, 3))
    labels = labels_of(conv(node("reshape", mean, shape=(1, 4, 1, 1)), 2))
    assert sets(labels, a) == sets(labels, deep) == sets(labels, pooled)
    summed = labels_of(node("reduce", a, combine="add", axes=(1,)))  # over the channels themselves
    assert all(summed.groups.is_frozen(s) for s in sets(summed, a))
