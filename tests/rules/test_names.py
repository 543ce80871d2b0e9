"""Composites are found by name however they are written, and every operation has exactly one name."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from math import pi, sqrt

import numpy as np
import pytest

from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import Type
from edgec.ops import node
from edgec.rewrite import simplify
from edgec.rewrite.facts import is_static
from edgec.rewrite.names import Named, cover
from edgec.rewrite.names.definitions import DEFINITIONS


def c(value: object) -> Node:
    return constant(np.asarray(value, np.float32))


def names(output: Node) -> list[str]:
    return [n.name for n in named(output)]


def named(output: Node) -> tuple[Named, ...]:
    inputs = {n: None for n in Graph((), (("y", output),)).nodes() if n.op == "input"}
    graph, _ = simplify(Graph(tuple(inputs), (("y", output),)))
    found = cover(graph)
    for n in graph.operations():
        assert is_static(n) or sum(n in f.nodes for f in found) == 1
    return found


def total(x: Node, axis: int) -> Node:
    return node("reduce", x, combine="add", axes=(axis,))


def mean(x: Node, axis: int, as_product: bool) -> Node:
    n = x.type.shape[axis]
    return node("mul", total(x, axis), c(1 / n)) if as_product else node("div", total(x, axis), c(n))


X = placeholder("x", Type("f32", (2, 6, 8)))


def layer_norm(x: Node, power: bool, reciprocal: bool, affine: bool) -> Node:
    centered = node("sub", x, mean(x, 2, reciprocal))
    square = node("pow", centered, c(2)) if power else node("mul", centered, centered)
    deviation = node("sqrt", node("add", c(1e-5), mean(square, 2, reciprocal)))
    y = node("mul", centered, node("pow", deviation, c(-1))) if power else node("div", centered, deviation)
    if affine:
        y = node("add", node("mul", c(np.arange(1, 9)), y), c(np.arange(8)))
    return y


@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize("reciprocal", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_layer_normalization_in_any_spelling(power: bool, reciprocal: bool, affine: bool) -> None:
    assert names(layer_norm(X, power, reciprocal, affine)) == ["layer normalization"]


def test_instance_normalization_is_over_positions() -> None:
    x = placeholder("x", Type("f32", (1, 3, 4, 4)))
    axes = {"combine": "add", "axes": (2, 3)}
    centered = node("sub", x, node("div", node("reduce", x, **axes), c(16)))
    variance = node("div", node("reduce", node("mul", centered, centered), **axes), c(16))
    y = node("div", centered, node("sqrt", node("add", variance, c(1e-5))))
    assert names(y) == ["instance normalization"]


def test_a_constant_that_is_not_the_extent_is_no_mean() -> None:
    centered = node("sub", X, node("div", total(X, 2), c(7)))
    variance = node("div", total(node("mul", centered, centered), 2), c(7))
    y = node("div", centered, node("sqrt", node("add", variance, c(1e-5))))
    assert "layer normalization" not in names(y)


SPELLINGS: dict[str, list[Callable[[Node], Node]]] = {
    "gelu": [
        lambda x: node("mul", node("mul", c(0.5), x), node("add", c(1), node("erf", node("div", x, c(sqrt(2)))))),
        lambda x: node("mul", x, node("mul", c(0.5), node("add", node("erf", node("mul", x, c(sqrt(0.5)))), c(1)))),
    ],
    "gelu (tanh)": [
        lambda x: node(
            "mul",
            node("mul", c(0.5), x),
            node(
                "add",
                c(1),
                node(
                    "tanh",
                    node("mul", c(sqrt(2 / pi)), node("add", x, node("mul", c(0.044715), node("pow", x, c(3))))),
                ),
            ),
        ),
    ],
    "silu": [
        lambda x: node("mul", x, node("sigmoid", x)),
        lambda x: node("div", x, node("add", c(1), node("exp", node("neg", x)))),
        lambda x: node("mul", node("div", c(1), node("add", node("exp", node("neg", x)), c(1))), x),
    ],
    "hard swish": [
        lambda x: node("mul", x, node("div", node("min", node("max", node("add", x, c(3)), c(0)), c(6)), c(6))),
        lambda x: node("mul", x, node("max", c(0), node("min", c(1), node("add", node("mul", x, c(1 / 6)), c(0.5))))),
    ],
    "softmax": [
        lambda x: node(
            "div", e := node("exp", node("sub", x, node("reduce", x, combine="max", axes=(2,)))), total(e, 2)
        ),
        lambda x: node("mul", e := node("exp", x), node("pow", total(e, 2), c(-1))),
    ],
    "rms normalization": [
        lambda x: node("mul", x, node("pow", node("add", mean(node("mul", x, x), 2, True), c(1e-6)), c(-0.5))),
        lambda x: node("div", x, node("sqrt", node("add", mean(node("pow", x, c(2)), 2, False), c(1e-6)))),
    ],
    "arg max": [
        lambda x: node(
            "reduce",
            node("select", node("eq", x, node("reduce", x, combine="max", axes=(2,))), c(np.arange(8)), c(8)),
            combine="min",
            axes=(2,),
        ),
    ],
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings(name: str) -> None:
    for spelling in SPELLINGS[name]:
        assert [n for n in names(spelling(X)) if n != "mul"] == [name]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_definition_is_found_by_its_name(name: str) -> None:
    """The definition with the model's own numbers: what is found is the normal form, not the sample."""
    for definition in DEFINITIONS[name]:
        operands = [placeholder(p, Type("f32", (5, 22))) for p in signature(definition).parameters]
        assert name in names(definition(*operands)), definition.__name__


def heads(x: Node, perm: tuple[int, ...]) -> Node:
    return node("transpose", node("reshape", x, shape=(1, 6, 2, 4)), perm=perm)


@pytest.mark.parametrize("is_masked", [True, False])
def test_attention_is_one_operator_with_its_heads_and_mask(is_masked: bool) -> None:
    x = placeholder("x", Type("f32", (1, 6, 8)))
    random = np.random.default_rng(0)
    q, k, v = (node("matmul", x, c(random.standard_normal((8, 8)))) for _ in range(3))
    scores = node("matmul", heads(q, (0, 2, 1, 3)), heads(k, (0, 2, 3, 1)))
    scores = node("div", scores, c(2))
    if is_masked:
        scores = node("add", scores, placeholder("mask", Type("f32", (1, 1, 1, 6))))
    e = node("exp", node("sub", scores, node("reduce", scores, combine="max", axes=(3,))))
    mixed = node("matmul", node("div", e, total(e, 3)), heads(v, (0, 2, 1, 3)))
    joined = node("reshape", node("transpose", mixed, perm=(0, 2, 1, 3)), shape=(1, 6, 8))
    output = node("matmul", joined, c(random.standard_normal((8, 8))))
    assert sorted(names(output)) == ["attention", *["matrix product"] * 4]


def test_rotary_embedding() -> None:
    x = placeholder("x", Type("f32", (1, 2, 6, 8)))
    halves = [node("slice", x, starts=(0, 0, 0, s), steps=(1,) * 4, shape=(1, 2, 6, 4)) for s in (0, 4)]
    turned = node("concat", node("neg", halves[1]), halves[0], axis=3)
    cos, sin = (placeholder(n, Type("f32", (6, 8))) for n in ("cos", "sin"))
    assert names(node("add", node("mul", x, cos), node("mul", turned, sin))) == ["rotary embedding"]


def neighbors(x: Node) -> tuple[Node, Node]:
    """Elements at even and at odd positions."""
    *front, size = x.type.shape
    at = [{"starts": (0,) * len(front) + (s,), "steps": (1,) * len(front) + (2,)} for s in (0, 1)]
    even, odd = (node("slice", x, **where, shape=(*front, size // 2)) for where in at)
    return even, odd


def stacked(a: Node, b: Node) -> Node:
    *front, pairs = a.type.shape
    apart = (node("reshape", p, shape=(*front, pairs, 1)) for p in (a, b))
    return node("reshape", node("concat", *apart, axis=len(front) + 1), shape=(*front, 2 * pairs))


def test_rotary_embedding_of_neighbors() -> None:
    """As GPT-J turns its heads: every two features, cosines repeated."""
    x = placeholder("x", Type("f32", (1, 6, 2, 8)))
    even, odd = neighbors(x)
    cos, sin = (placeholder(n, Type("f32", (6, 1, 8))) for n in ("cos", "sin"))
    turned = stacked(node("neg", odd), even)
    assert names(node("add", node("mul", x, cos), node("mul", turned, sin))) == ["rotary embedding"]


@pytest.mark.parametrize("pairs", ["halves", "neighbors", "stacked"])
def test_rotary_embedding_of_parts(pairs: str) -> None:
    """As Llama's own code and runtimes' operators turn them: real and imaginary parts by themselves."""
    x = placeholder("x", Type("f32", (1, 2, 6, 8)))
    cos, sin = (placeholder(n, Type("f32", (6, 4))) for n in ("cos", "sin"))
    if pairs == "halves":
        a, b = (node("slice", x, starts=(0, 0, 0, s), steps=(1,) * 4, shape=(1, 2, 6, 4)) for s in (0, 4))
    elif pairs == "neighbors":
        a, b = neighbors(x)
    else:
        apart = node("reshape", x, shape=(1, 2, 6, 4, 2))
        taken = (node("slice", apart, starts=(0,) * 4 + (s,), steps=(1,) * 5, shape=(1, 2, 6, 4, 1)) for s in (0, 1))
        a, b = (node("reshape", part, shape=(1, 2, 6, 4)) for part in taken)
    real = node("sub", node("mul", a, cos), node("mul", b, sin))
    imaginary = node("add", node("mul", a, sin), node("mul", b, cos))
    y = node("concat", real, imaginary, axis=3) if pairs == "halves" else stacked(real, imaginary)
    assert names(y) == ["rotary embedding"]


def test_parts_that_are_turned_by_different_angles_are_no_rotary_embedding() -> None:
    x = placeholder("x", Type("f32", (1, 2, 6, 8)))
    cos, sin, other = (placeholder(n, Type("f32", (6, 4))) for n in ("cos", "sin", "other"))
    a, b = neighbors(x)
    real = node("sub", node("mul", a, cos), node("mul", b, sin))
    imaginary = node("add", node("mul", a, sin), node("mul", b, other))
    assert "rotary embedding" not in names(stacked(real, imaginary))


@pytest.mark.parametrize(
    "groups, is_affine, space",
    [(2, True, (3, 3)), (2, False, (3, 3)), (8, False, (3, 3)), (2, True, (9,)), (4, False, (3, 1, 3))],
)
def test_group_normalization_is_one_operator_with_its_groups(
    groups: int, is_affine: bool, space: tuple[int, ...]
) -> None:
    x = placeholder("x", Type("f32", (2, 8, *space)))
    parted = node("reshape", x, shape=(2, groups, 72 // groups))
    y = node("reshape", layer_norm(parted, False, True, False), shape=(2, 8, *space))
    if is_affine:
        scale = c(np.arange(1, 9).reshape(8, *(1 for _ in space)))
        y = node("add", node("mul", y, scale), node("mul", scale, c(2)))
    assert names(y) == ["group normalization" if groups < 8 else "instance normalization"]


@pytest.mark.parametrize(
    ("shape", "groups", "back"),
    [
        ((2, 8), 2, (2, 8)),  # rows have no channels
        ((2, 8, 9), 2, (2, 9, 8)),
        ((4, 4, 9), 2, (4, 4, 9)),  # groups of two samples
    ],
)
def test_reshapes_that_make_no_groups(shape: tuple[int, ...], groups: int, back: tuple[int, ...]) -> None:
    x = placeholder("x", Type("f32", shape))
    batch = 2
    parted = node("reshape", x, shape=(batch, groups, x.type.elements // batch // groups))
    y = node("reshape", layer_norm(parted, False, True, False), shape=back)
    assert "layer normalization" in names(y)


@pytest.mark.parametrize("is_masked", [True, False])
def test_attention_of_grouped_queries_is_one_operator(is_masked: bool) -> None:
    """Two heads of keys and values serve four of queries: repeated by expanding, as transformers does."""
    random = np.random.default_rng(0)
    x = placeholder("x", Type("f32", (1, 6, 16)))

    def projected(count: int) -> Node:
        flat = node("matmul", x, c(random.standard_normal((16, 4 * count))))
        return node("transpose", node("reshape", flat, shape=(1, 6, count, 4)), perm=(0, 2, 1, 3))

    def repeated(h: Node) -> Node:
        wide = node("broadcast", node("reshape", h, shape=(1, 2, 1, 6, 4)), shape=(1, 2, 2, 6, 4))
        return node("reshape", wide, shape=(1, 4, 6, 4))

    q, k, v = projected(4), repeated(projected(2)), repeated(projected(2))
    scores = node("mul", node("matmul", q, node("transpose", k, perm=(0, 1, 3, 2))), c(0.5))
    if is_masked:
        scores = node("add", scores, placeholder("mask", Type("f32", (1, 1, 6, 6))))
    e = node("exp", node("sub", scores, node("reduce", scores, combine="max", axes=(3,))))
    mixed = node("matmul", node("div", e, total(e, 3)), v)
    joined = node("reshape", node("transpose", mixed, perm=(0, 2, 1, 3)), shape=(1, 6, 16))
    assert sorted(names(joined)) == ["attention", *["matrix product"] * 3]


def test_channel_shuffle_and_depth_to_space() -> None:
    x = placeholder("x", Type("f32", (1, 8, 3, 3)))
    parted = node("reshape", x, shape=(1, 2, 4, 3, 3))
    shuffled = node("reshape", node("transpose", parted, perm=(0, 2, 1, 3, 4)), shape=(1, 8, 3, 3))
    assert names(shuffled) == ["channel shuffle"]
    blocks = node("transpose", node("reshape", x, shape=(1, 2, 2, 2, 3, 3)), perm=(0, 1, 4, 2, 5, 3))
    assert names(node("reshape", blocks, shape=(1, 2, 6, 6))) == ["depth to space"]


def test_what_others_read_is_not_hidden_in_a_composite() -> None:
    gate = node("sigmoid", X)
    graph, _ = simplify(Graph((X,), (("y", node("mul", X, gate)), ("gate", gate))))
    assert [n.name for n in cover(graph)] == ["sigmoid", "mul"]
