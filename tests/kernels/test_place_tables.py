"""Positions as tables: the same elements are read, where constants choose them, and runs of neighbors are told."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from chance import RANDOM

from edgec.ir import expr as X
from edgec.ir.evaluate import Grid
from edgec.ir.expr import Expr
from edgec.ops.gathering import wrapped
from edgec.schedule.flat import Flat, Weights
from edgec.schedule.program import Buffer
from edgec.schedule.tables import LARGEST, WIDTHS, in_runs, with_places_along, with_tables

ARENA = Buffer("x", "arena", "f32", 4096)
DATA = Buffer("i", "arena", "i32", 64)
RESULT = Buffer("y", "output", "f32", 4096)
I, J, N = X.fresh(6), X.fresh(4), X.fresh(10)


def read(place: Expr) -> Expr:
    return X.load(ARENA, (place,), "f32")


def held(weights: Weights, values: object, place: Expr) -> Expr:
    found = np.asarray(values)
    return X.load(weights.add(found), (place,), {"int64": "i64", "int32": "i32"}[str(found.dtype)])


def result(flat: Flat) -> np.ndarray:
    data = {ARENA: np.arange(4096, dtype=np.float32), DATA: (np.arange(64, dtype=np.int32) * 7) % 23 - 9}
    grid = Grid(flat.loops, lambda b: data.get(b, b.data))
    shape = [v.value.extent for v in flat.loops]
    found = np.full(RESULT.elements, np.nan)
    found[np.broadcast_to(grid.value(flat.address), shape)] = np.broadcast_to(grid.value(flat.body), shape)
    return found


def checked(flat: Flat, weights: Weights) -> Flat:
    found = with_tables(flat, weights)
    assert np.array_equal(result(flat), result(found), equal_nan=True)
    return found


def test_positions_that_constants_choose() -> None:
    """Wrapped and clamped once, when the table is made; what is linear stays a sum."""
    weights = Weights()
    indices = held(weights, np.array([3, -1, 0, 9, -10, 5]), I)
    for place in (
        wrapped(indices, 10) * 7 + J, wrapped(indices, 10) + wrapped(held(weights, np.arange(4), J), 10) * 20,
        wrapped(indices, 10) * 7 + J * 2 + 5,
    ):  # fmt: skip
        found = checked(Flat((I, J), read(place), RESULT, I * 4 + J), weights)
        (load,) = (e for e in X.loads(found.body) if e.value is ARENA)
        kinds = {e.dtype for e in X.loads(load.args[0])}
        assert kinds == {"i32"} and not any(e.op in ("min", "max", "select") for e in X.walk(load.args[0]))
    plain = Flat((I, J), read(I * 4 + J), RESULT, I * 4 + J)
    assert with_tables(plain, weights).body is plain.body


def test_positions_that_stay() -> None:
    """Of data, beyond their tables, too many, or of open loops."""
    weights, long, open_ = Weights(), X.fresh(LARGEST + 1), X.fresh(X.size("m", 2, 6))
    table = np.arange(6)
    for loops, place in (
        ((I,), X.cast(X.load(DATA, (I,), "i32"), "i64") + 20), ((I,), held(weights, table, I - 1)),
        ((I,), held(weights, table, I + 1)), ((long,), held(weights, np.zeros(LARGEST + 1, np.int64), long)),
        ((open_,), held(weights, table, open_)), ((I,), held(weights, table * 2**31, I)),
        ((I,), held(weights, table, X.size("m", 0, 5) + I * 0)),
    ):  # fmt: skip
        flat = Flat(loops, read(place), RESULT, loops[0])
        assert with_tables(flat, weights).body is flat.body, X.show(place)
    most = X.fresh(LARGEST)
    flat = Flat((most,), read(held(weights, np.zeros(LARGEST, np.int64), most)), RESULT, most)
    assert with_tables(flat, weights).body is not flat.body
    edge = Flat((I,), read(held(weights, np.array([2**31 - 1] * 6), I)), RESULT, I)
    assert with_tables(edge, weights).body is not edge.body


@pytest.mark.parametrize("extent", [1, 9, 23])
def test_positions_of_data_in_32_bits(extent: int) -> None:
    """Wrapped and clamped as many, on lanes too; of 64 bits they stay."""
    weights = Weights()
    place = wrapped(X.load(DATA, (I * 4 + J,), "i32"), extent) * 3 + J
    found = checked(Flat((I, J), read(place), RESULT, I * 4 + J), weights)
    (load,) = (e for e in X.loads(found.body) if e.value is ARENA)
    if extent > 1:
        clamped = [e for e in X.walk(load.args[0]) if e.op in ("min", "max", "select")]
        assert clamped and all(e.dtype == "i32" for e in clamped)


def test_places_along_lanes() -> None:
    """A row repeated, and cropped; what is linear, repeated evenly or may be outside stays."""
    weights, lane = Weights(), X.fresh(24)
    for place, has_table in (
        (I * 30 + (lane + 3) % 10, True), (I * 30 + lane // 5 + lane % 5, True), (I * 24 + lane, False),
        (I * 24 + lane // 4, False), (I * 24 + lane % 10 - 1, False), (lane % 10 + 4090 - I * 0, False),
        ((lane + I) % 10, True), (X.cast(X.load(DATA, (lane,), "i32"), "i64"), False),
    ):  # fmt: skip
        flat = Flat((I, lane), read(place), RESULT, I * 24 + lane)
        found = with_places_along(flat.body, lane, flat.loops, weights)
        assert (found is not flat.body) == has_table, X.show(place)
        if has_table:
            other = Flat(flat.loops, found, RESULT, flat.address)
            assert np.array_equal(result(flat), result(other), equal_nan=True)


def brute(data: np.ndarray, row: int) -> bool:
    """For each width, its first and last tell of a vector whether it is a run, and half of all are."""
    if data.size % row:
        return False
    for width in (w for w in WIDTHS if w <= row):
        vectors = [r[k : k + width] for r in data.reshape(-1, row) for k in range(row - width + 1)]
        runs = [bool((np.diff(v) == 1).all()) for v in vectors]
        ends = [bool(v[-1] - v[0] == width - 1) for v in vectors]
        if runs != ends or 2 * sum(runs) < len(runs):
            return False
    return True


def test_runs_of_neighbors() -> None:
    """Drawn rows of neighbors with some breaks, edges repeated, and other orders."""
    told = {True: 0, False: 0}
    for row, breaks in product((3, 4, 7, 12, 20), range(6)):
        for _ in range(6):
            steps = np.ones((2, row), np.int32)
            for _ in range(breaks):
                steps[RANDOM.integers(2), RANDOM.integers(row)] = RANDOM.integers(-4, 5)
            data = np.cumsum(steps, axis=1).astype(np.int32)
            table = Buffer("t", "weights", "i32", data.size, data.reshape(-1))
            want = brute(data, row)
            assert in_runs(X.load(table, (N,), "i32"), row) == want
            told[want] += 1
    assert min(told.values()) > 10
    odd = Buffer("t", "weights", "i32", 9, np.arange(9, dtype=np.int32))
    assert in_runs(X.load(odd, (N,), "i32"), 9) and not in_runs(X.load(odd, (N,), "i32"), 4)
    assert not in_runs(X.load(Buffer("t", "arena", "i32", 9), (N,), "i32"), 9) and not in_runs(N + 1, 9)
