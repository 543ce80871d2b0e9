"""Neighbors in the memory of a result: whether lanes can run there, and how many columns of a product they hold."""

from __future__ import annotations

import numpy as np
import pytest
from small_graphs import value

from edgec.fuse.stored_lanes import columns_in_runs, stores_in_lanes
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.graph import Node, constant
from edgec.ir.lanes import NARROWEST
from edgec.ir.nest import Split
from edgec.ir.types import Type


def split(body: Expr, *position: Expr | tuple[int, Expr]) -> Split:
    """Loops of a result whose position along each dimension is a loop, or a loop behind a number of others."""
    loops = [p if isinstance(p, Expr) else p[1] for p in position]
    place = [p if isinstance(p, Expr) else p[1] * p[0] for p in position]
    shape = tuple((1 if isinstance(p, Expr) else p[0]) * (v.value.extent if v.op == "var" else 1)
                  for p, v in zip(position, loops))  # fmt: skip
    return Split(Type("f32", shape), tuple(v for v in loops if v.op == "var"), tuple(place), body)


ZERO, ANY = X.const(0), X.const(1.0, "f32")


@pytest.mark.parametrize(
    ("position", "has_lanes"),
    [
        ((X.fresh(9), X.fresh(NARROWEST)), True), ((X.fresh(9), X.fresh(NARROWEST - 1)), False),
        ((X.fresh(NARROWEST), ZERO), True), ((X.fresh(NARROWEST), ZERO, ZERO), True),
        ((X.fresh(9), (2, X.fresh(64))), False),  # every other element
        ((X.fresh(9), X.fresh(2 * NARROWEST), X.fresh(3)), True),  # channels
        ((X.fresh(9), X.fresh(2 * NARROWEST - 1), X.fresh(3)), False),
        ((X.fresh(9), X.fresh(2 * NARROWEST)), True), ((X.fresh(2 * NARROWEST), X.fresh(3), X.fresh(3)), False),
        ((X.fresh(9), (2, X.fresh(64)), X.fresh(3)), False), ((ZERO, ZERO), False), ((), False),
    ],
)  # fmt: skip
def test_lanes_of_a_result(position: tuple[Expr, ...], has_lanes: bool) -> None:
    assert stores_in_lanes(split(ANY, *position)) == has_lanes


A, W = (constant(np.zeros(1, np.float32)) for _ in range(2))


def product(
    rows: tuple[Expr, ...], columns: tuple[Expr, ...], shared: tuple[Expr, ...] = (), both: bool = False
) -> Expr:
    """A sum of products of an input over rows and a constant over columns; of ``both`` inputs, where that is said."""
    k = X.fresh(7)
    other = value("w", 2) if both else W
    left, right = (X.load(n, (*shared, *v, k), "f32") for n, v in ((value("x", 2), rows), (other, columns)))
    return X.reduce("add", (k,), left * right)


M, N, G, H = X.fresh(5), X.fresh(12), X.fresh(3), X.fresh(4)


@pytest.mark.parametrize(
    ("body", "position", "found"),
    [
        (product((M,), (N,)), (M, N), (12, 12)),
        (product((M,), (N,)), (N, M), (1, 1)),  # rows are neighbors
        (product((M,), (N,)), (M, N, ZERO), (12, 12)),
        (product((M,), (N,)), (ZERO, N, M), (12, 12)),  # channels, one picture behind another
        (product((M,), (H, G)), (M, H, G), (12, 12)),
        (product((M,), (G, H)), (G, M, H), (12, 4)),
        (product((M,), (G, H)), (G, H, M), (12, 4)),  # H is where channels are
        (product((M,), (N,), both=True), (N, M), (5, 5)),  # each factor may have the lanes
        (product((M,), (N,), both=True), (M, N), (12, 12)),
        (product((M,), (N,), (G,)), (G, M, N), (12, 12)),
        (product((M,), (N,), (G,)), (G, N, M), (12, 12)),
        (product((M,), (N,), (G,)), (N, G, M), (12, 1)),  # of a group, and no two are neighbors
        (product((M,), (N,), (G,), both=True), (N, M, G), (5, 5)),
        (product((M,), (N,)) * product((M,), (N,)), (M, N), (12, 12)),  # one and the same sum
        (product((M,), (N,)) + product((N,), (M,)), (M, N), (1, 1)),
        (ANY, (M, N), (1, 1)),
        (X.reduce("add", (k := X.fresh(7),), X.load(W, (N, k), "f32")), (M, N), (1, 1)),
    ],
)
def test_columns_of_a_product(body: Expr, position: tuple[Expr, ...], found: tuple[int, int]) -> None:
    assert columns_in_runs(split(body, *position)) == found


def beside(rows: Node, body: Expr, *index: Expr) -> Expr:
    return body + X.load(rows, index, "f32")


@pytest.mark.parametrize(
    ("shape", "index", "run"),
    [((5, 4, 3), (M, H, G), 12), ((5, 1, 3), (M, ZERO, G), 4), ((4, 3), (H, G), 12), ((3,), (G,), 4), ((5,), (M,), 12)],
)
def test_what_is_repeated_among_columns(shape: tuple[int, ...], index: tuple[Expr, ...], run: int) -> None:
    """Runs end where what is added begins anew; four channels are left then."""
    body = beside(value("b", *shape), product((M,), (H, G)), *index)
    assert columns_in_runs(split(body, M, H, G)) == (12, run)
