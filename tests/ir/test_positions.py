"""Indices of one shape as those of another: the same positions, and no more products of sizes than need be."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.positions import delinearize, linearize, regrouped

N, M = X.size("n", 1, 9), X.size("m", 1, 9)
SHAPES: list[tuple[tuple[X.Extent, ...], tuple[X.Extent, ...]]] = [
    ((2, 3, 4), (6, 4)), ((6, 4), (2, 3, 4)), ((2, 6), (3, 4)), ((12,), (1, 3, 1, 4)), ((1, 5), (5,)), ((), (1, 1)),
    ((1, 1), ()), ((4, 3, 2), (2, 3, 4)), ((N, 6), (N, 2, 3)), ((N, 2, 3), (N, 6)), ((2, N, 3), (2, N, 3, 1)),
    ((N, 2, M), (N * 2, M)), ((6, N), (2, 3, N)), ((N, M), (N * M,)), ((1, N), (N,)), ((N, 4, M), (N, 2, 2, M)),
]  # fmt: skip
SIZES = {N: 3, M: 5}


def fixed(shape: tuple[X.Extent, ...]) -> tuple[int, ...]:
    found = (X.substitute(n, {s: X.const(k) for s, k in SIZES.items()}) if isinstance(n, Expr) else n for n in shape)
    return tuple(int(n.value) if isinstance(n, Expr) else n for n in found)


@pytest.mark.parametrize("shape, into", SHAPES, ids=str)
def test_every_element_stays_where_it_is(shape: tuple[X.Extent, ...], into: tuple[X.Extent, ...]) -> None:
    place = tuple(X.fresh(extent) for extent in shape)
    found = regrouped(place, shape, into)
    there = delinearize(linearize(place, shape), into)
    assert len(found) == len(there) == len(into)
    known, target = fixed(shape), fixed(into)
    assert prod(known) == prod(target)
    for number, at in enumerate(product(*map(range, known))):
        given = {**{v: X.const(k) for v, k in zip(place, at)}, **{s: X.const(k) for s, k in SIZES.items()}}
        index = np.unravel_index(number, target) if target else ()
        for way in (found, there):
            assert [X.substitute(e, given) for e in way] == [X.const(int(k)) for k in index]


@pytest.mark.parametrize("shape, into", [pair for pair in SHAPES[8:] if pair[1] not in ((N * 2, M), (N * M,))], ids=str)
def test_sizes_are_not_multiplied_with_one_another(shape: tuple[X.Extent, ...], into: tuple[X.Extent, ...]) -> None:
    place = tuple(X.fresh(extent) for extent in shape)
    for e in regrouped(place, shape, into):
        assert not any(part.op == "size" for part in X.walk(e)), e
