"""Gradients of convolutions against sums written out, for few channels and for many, which take different ways."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from chance import RANDOM
from small_graphs import value

from edgec import ops
from edgec.differentiate import gradients
from edgec.differentiate.taps import by_taps
from edgec.ir import evaluate
from edgec.ir.graph import Graph, constant, topological

#: Channels of x and y, groups, kernel, strides, dilations.
CASES = [
    (3, 2, 1, (3, 2), (1, 1), (1, 1)),
    (3, 9, 1, (2, 3), (2, 1), (1, 2)),
    (9, 3, 1, (1, 1), (2, 3), (1, 1)),
    (12, 24, 3, (2, 2), (1, 2), (2, 1)),
    (24, 12, 3, (3, 1), (3, 1), (1, 1)),
    (4, 8, 4, (3, 3), (2, 2), (1, 1)),
    (16, 16, 16, (2, 3), (1, 1), (2, 2)),
    (2, 8, 1, (7, 7), (1, 1), (1, 1)),
    (9, 2, 1, (8, 9), (1, 1), (1, 1)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("before, after", [((0, 0), (1, 2)), ((2, 1), (3, 0)), ((1, 1), (1, 1))], ids=str)
def test_behind_padding(case: tuple, before: tuple[int, ...], after: tuple[int, ...]) -> None:  # type: ignore[type-arg]
    """The gradient of what is padded is that of a convolution of all of it, cut; no more of it is computed than is
    read."""
    channels, outputs, groups, kernel, strides, dilations = case
    x = value("x", 1, channels, 9, 10, dtype="f64")
    w = value("w", outputs, channels // groups, *kernel, dtype="f64")
    padded = ops.node("pad", x, before=(0, 0, *before), after=(0, 0, *after), value=0.0)
    plain = value("plain", *padded.type.shape, dtype="f64")
    attributes = {"strides": strides, "dilations": dilations, "groups": groups}
    y, whole = (ops.node("conv", a, w, **attributes) for a in (padded, plain))
    seed = value("seed", *y.type.shape, dtype="f64")
    (got,), (want,) = gradients(y, [x], seed=seed), gradients(whole, [plain], seed=seed)
    assert got is not None and want is not None
    given = {n.attributes["name"]: RANDOM.standard_normal(n.type.shape) for n in (x, w, seed, plain)}
    found = evaluate.run(Graph((x, w, seed, plain), (("got", got), ("want", want))), given)
    top, left = before
    np.testing.assert_allclose(found["got"], found["want"][:, :, top : top + 9, left : left + 10], atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_both_gradients(case: tuple) -> None:  # type: ignore[type-arg]
    channels, outputs, groups, kernel, strides, dilations = case
    x = value("x", 2, channels, 9, 10, dtype="f64")
    w = value("w", outputs, channels // groups, *kernel, dtype="f64")
    y = ops.node("conv", x, w, strides=strides, dilations=dilations, groups=groups)
    seed = value("seed", *y.type.shape, dtype="f64")
    by_x, by_w = gradients(y, [x, w], seed=seed)
    assert by_x is not None and by_w is not None
    given = {n.attributes["name"]: RANDOM.standard_normal(n.type.shape) for n in (x, w, seed)}
    got = evaluate.run(Graph((x, w, seed), (("x", by_x), ("w", by_w))), given)
    want = {"x": np.zeros(x.type.shape), "w": np.zeros(w.type.shape)}
    per_group = channels // groups
    for n, o, i, j in np.ndindex(*y.type.shape):
        first = o // (outputs // groups) * per_group
        rows, columns = (
            slice(p * s, p * s + (k - 1) * d + 1, d) for p, k, s, d in zip((i, j), kernel, strides, dilations)
        )
        place = (n, slice(first, first + per_group), rows, columns)
        want["w"][o] += given["seed"][n, o, i, j] * given["x"][place]
        want["x"][place] += given["seed"][n, o, i, j] * given["w"][o]
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("others", [False, True], ids=["all", "but those of few channels"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_product_for_each_tap(case: tuple, others: bool) -> None:  # type: ignore[type-arg]
    """Wide convolutions by the gradient become products of matrices, with the same results."""
    channels, outputs, groups, kernel, strides, dilations = case
    x = value("x", 2, channels, 9, 10, dtype="f64")
    w = value("w", outputs, channels // groups, *kernel, dtype="f64")
    y = ops.node("conv", x, w, strides=strides, dilations=dilations, groups=groups)
    seed = value("seed", *y.type.shape, dtype="f64")
    (by_w,) = gradients(y, [w], seed=seed)
    assert by_w is not None
    graph = Graph((x, w, seed), (("w", by_w),))
    turned = by_taps(graph, lambda n: others and n.attributes["groups"] == 1 and n.type.shape[0] < 8)
    is_wide = channels > groups and max(channels, outputs) // groups >= 8 and prod(kernel) <= 64
    is_wide &= prod(kernel) < prod(y.type.shape[2:])
    is_wide &= not others or groups > 1 or channels >= 8
    products = sum(n.op == "matmul" for n in turned.nodes())
    assert products == (prod(kernel) if is_wide else 0)
    given = {n.attributes["name"]: RANDOM.standard_normal(n.type.shape) for n in (x, w, seed)}
    np.testing.assert_allclose(evaluate.run(turned, given)["w"], evaluate.run(graph, given)["w"], atol=1e-10)


def test_weights_that_the_build_computes_are_no_images() -> None:
    """A convolution by decoded weights larger than its result stays one: nothing of it is computed at run time."""
    w = ops.node("cast", constant(RANDOM.integers(-9, 9, (10, 4, 7, 7)).astype(np.int8)), to="f32")
    seen, given = ops.node("neg", w), value("w", 10, 4, 7, 7)
    for weights, is_changed in ((w, False), (seen, False), (given, True)):
        y = ops.node("conv", value("x", 9, 4, 8, 8), weights, strides=(1, 1), dilations=(1, 1), groups=1)
        graph = Graph(tuple(n for n in topological([y]) if n.op == "input"), (("y", y),), origin={y: ("c",)})
        turned = by_taps(graph, lambda n: False)
        assert (turned is not graph) == is_changed
        assert not is_changed or all(turned.names(n) == ("c",) for n in turned.operations())
