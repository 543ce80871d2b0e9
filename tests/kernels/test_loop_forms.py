"""Formulas over loops in other forms: what is stored where stays the same, and forms are taken where they are named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from chance import RANDOM

from edgec.ir import expr as X
from edgec.ir.evaluate import Grid
from edgec.ir.expr import Expr
from edgec.schedule.flat import Flat, Weights, merge_loops, with_columns_as_stored
from edgec.schedule.loops import (
    JOINED,
    Parts,
    are_few_gathered,
    around_row,
    as_one_loop,
    in_order_of_sum,
    in_wide_sums,
    is_contiguous,
    lanes_of_reductions,
    merge_reductions,
    repacked,
    taken_apart,
    taken_apart_by_nests,
    with_joined_lanes,
)
from edgec.schedule.program import Buffer

ARENA = Buffer("x", "arena", "f32", 4096)
RESULT = Buffer("y", "output", "f32", 4096)


def x(place: Expr) -> Expr:
    return X.load(ARENA, (place,), "f32")


def table(weights: Weights, *shape: int) -> Buffer:
    return weights.add(RANDOM.integers(-9, 10, shape).astype(np.float32))


def w(buffer: Buffer, place: Expr) -> Expr:
    return X.load(buffer, (place,), "f32")


def total(names: tuple[Expr, ...], body: Expr, combine: str = "add") -> Expr:
    return X.reduce(combine, names, body)  # type: ignore[arg-type]


def result(flat: Flat, data: np.ndarray) -> np.ndarray:
    """Contents of memory afterwards."""
    grid = Grid(flat.loops, lambda b: data if b is ARENA else b.data)
    shape = [v.value.extent for v in flat.loops]
    places = np.broadcast_to(grid.value(flat.address), shape)
    found = np.full(RESULT.elements, np.nan)
    found[places] = np.broadcast_to(grid.value(flat.body), shape)
    return found


def same(a: Flat, b: Flat) -> None:
    data = RANDOM.integers(-9, 10, ARENA.elements).astype(np.float32)
    assert np.array_equal(result(a, data), result(b, data), equal_nan=True)


I, J, N = X.fresh(6), X.fresh(4), X.fresh(5)


def test_loops_that_memory_holds_as_one_are_merged() -> None:
    flat = Flat((I, J, N), x(I * 20 + J * 5 + N) * 2.0, RESULT, I * 20 + J * 5 + N)
    found = merge_loops(flat)
    assert [v.value.extent for v in found.loops] == [120]
    same(flat, found)
    kept = merge_loops(flat, frozenset((N,)))
    assert sorted(v.value.extent for v in kept.loops) == [5, 24] and N in kept.loops
    same(flat, kept)
    for other in (
        replace(flat, address=I * 24 + J * 5 + N),  # rows with a gap
        replace(flat, body=x(N * 24 + I * 4 + J)),  # turned
        replace(flat, body=x(I * 20 + J * 5 + N) + X.cast(J, "f32")),  # a loop that is a number
    ):
        merged = merge_loops(other)
        assert len(merged.loops) == 2 + (X.cast(J, "f32") in X.walk(other.body))
        same(other, merged)


def test_reductions_that_memory_holds_as_one_are_merged() -> None:
    a, b, c = X.fresh(3), X.fresh(4), X.fresh(2)
    for body, left in (
        (total((a, b, c), x(I * 24 + a * 8 + b * 2 + c)), [24]), (total((a, b), x(I * 12 + b * 3 + a)), [12]),
        (total((a, b), x(I * 15 + a * 5 + b)), [3, 4]), (total((a, b), x(a * 4 + b) * x(b)), [3, 4]),
        (total((a, b), x(a * 4 + b) * X.cast(b, "f32")), [3, 4]),
        (total((a,), x(a) * total((b, c), x(a * 8 + b * 2 + c), "max")), [3, 8]),
    ):  # fmt: skip
        flat = Flat((I,), body, RESULT, I)
        found = merge_reductions(flat)
        extents = sorted(v.extent for e in X.walk(found.body) if e.op == "reduce" for v in e.value[1])
        assert extents == sorted(left)
        same(flat, found)


@pytest.mark.parametrize("constants", [1, 2])
@pytest.mark.parametrize(("rows", "n", "lanes", "joined"), [
    (6, 4, 8, 24), (6, 3, 8, 18), (8, 3, 8, 24), (5, 3, 8, 15), (6, 16, 8, 16), (6, 8, 8, 8), (64, 12, 16, 192),
    (6, 15, 8, 90), (64, 4, 8, 256), (128, 4, 8, 256), (1, 3, 8, 3), (128, 3, 16, 192),
])  # fmt: skip
def test_short_rows_are_joined(rows: int, n: int, lanes: int, joined: int, constants: int) -> None:
    """As many as fill whole vectors, of those that divide the rows, or else the most."""
    weights, row, lane = Weights(), X.fresh(rows), X.fresh(n)
    body = x(row * n + lane if rows > 1 else lane)
    for _ in range(constants):
        body = body * w(table(weights, n), lane) + 1.0
    flat = Flat(tuple(v for v in (row, lane) if v.op == "var"), body, RESULT, row * n + lane)
    found, long = with_joined_lanes(flat, lane, lanes, weights)
    assert long.value.extent == joined <= max(JOINED, n) and (found is flat) == (joined == n)
    same(flat, found)


def test_rows_that_are_not_joined() -> None:
    weights, lane = Weights(), X.fresh(3)
    own = w(table(weights, 3), lane)
    at = I * 3 + lane
    for body, address in (
        (x(at), at),  # no constants of the lanes
        (x(at) * own, I * 4 + lane), (x(I * 4 + lane) * own, at), (x(at) * own + X.cast(I, "f32"), at),
        (x(at) * own + X.cast(lane, "f32"), at), (total((J,), x(J)) + x(at) * own, at),
        (x(at) * w(table(weights, 18), at + 0) + w(table(weights, 6, 4), I * 4 + lane), at),
    ):  # fmt: skip
        flat = Flat((I, lane), body, RESULT, address)
        assert with_joined_lanes(flat, lane, 8, weights) == (flat, lane)


def test_few_elements_that_are_gathered() -> None:
    for extent, step, few in ((3, 7, True), (4, 7, False), (3, 1, False), (3, 0, False)):
        n = X.fresh(extent)
        assert are_few_gathered(x(n * step + J), n, 8) == few
        assert not are_few_gathered(x(n * step + J) + x(n), n, 8)
    assert not are_few_gathered(X.const(1.0, "f32"), X.fresh(3), 8)


def test_lanes_along_what_reductions_read() -> None:
    k, long = X.fresh(7), X.fresh(32)
    short = X.fresh(15)
    for v, address, lanes, taken in (
        (long, long + k * 32, (I,), True), (short, short + k * 32, (I,), False), (long, long * 2 + k * 64, (I,), False),
        (long, long + k * 32, (long,), False), (long, long // 2 + k * 32, (I,), False),
    ):  # fmt: skip
        flat = Flat((I, v), total((k,), x(address)), RESULT, v * 6 + I)
        assert lanes_of_reductions(flat, lanes) == ([v] if taken else []), X.show(address)
    both = Flat((I, long), total((k,), x(long + k * 32) * x(k * 6 + I)), RESULT, long * 6 + I)
    assert lanes_of_reductions(both, (J,)) == [long] and lanes_of_reductions(both, (I,)) == []
    assert lanes_of_reductions(Flat((I, long), x(long), RESULT, I), (I,)) == []


def test_constants_in_other_orders() -> None:
    """Of lanes inside sums, of sums, and of columns as they are stored."""
    weights = Weights()
    k, n = X.fresh(7), X.fresh(5)
    turned = table(weights, 5, 7)
    flat = Flat((I, n), total((k,), x(I * 7 + k) * w(turned, n * 7 + k)), RESULT, I * 5 + n)
    found = replace(flat, body=repacked(flat.body, flat.loops, n, weights))
    steps = {str(e.value.name): e.args[0] for e in X.loads(found.body)}
    assert steps["x"] is not None and not any(e.value is turned for e in X.loads(found.body))
    same(flat, found)
    a, b = X.fresh(3), X.fresh(4)
    order = Flat((I,), total((a, b), x(I * 12 + b * 3 + a) * w(table(weights, 3, 4), a * 4 + b)), RESULT, I)
    ordered = in_order_of_sum(order, weights)
    assert ordered.body is not order.body
    same(order, ordered)
    for same_body in (total((a, b), x(a * 4 + b) * w(table(weights, 3, 4), a * 4 + b)), total((), x(I)), x(I)):
        alike = Flat((I,), same_body, RESULT, I)
        assert in_order_of_sum(alike, weights).body is same_body
    shuffled = Flat((a, b), x(a * 4) * w(table(weights, 3, 4), a * 4 + b), RESULT, b * 3 + a)
    stored = with_columns_as_stored(shuffled, weights)
    same(shuffled, stored)


def test_sums_of_halves_are_sums_of_floats() -> None:
    k = X.fresh(7)
    half = Buffer("h", "arena", "f16", 100)
    a, b = X.load(half, (k,), "f16"), X.cast(x(I), "f16")
    found = in_wide_sums(Flat((I,), total((k,), a * b), RESULT, I))
    assert found is not None and found.body.op == "cast" and found.body.dtype == "f16"
    (inner,) = (e for e in X.walk(found.body) if e.op == "reduce")
    assert inner.dtype == "f32" and X.load(half, inner.args[0].args[0].args or (k,), "f32").value is half
    for body in (
        total((k,), a), total((k,), a * b, "max"), total((k,), x(k) * x(k)), a * b, total((k,), a * b) + total((k,), a),
    ):  # fmt: skip
        assert in_wide_sums(Flat((I,), body, RESULT, I)) is None


def softmax(row: Expr, n: Expr, width: int) -> Expr:
    def at(v: Expr) -> Expr:
        return x(row * width + v)

    k = X.fresh(n.value.extent)
    top = total((k,), at(k), "max")
    powers = total((k,), X.call("exp", at(k) - top))
    return X.call("exp", at(n) - top) / powers


def put_together(parts: Parts, flat: Flat) -> Flat:
    """The formula again, with each reduction in its place."""
    walk = (*parts.walk, parts.row)
    done: dict[Expr, Expr] = {}
    for k, (combine, inner) in enumerate(parts.reductions):
        own = tuple(X.fresh(v.value.extent) for v in walk)
        body = X.substitute(X.substitute(inner, done), dict(zip(walk, own)))
        done[X.load(("reduction", k), (), inner.dtype)] = X.reduce(combine, own, body)
    loops = (*parts.loops, *(walk if parts.keeps_row else ()))
    return replace(flat, loops=loops, body=X.substitute(parts.result, done), address=parts.address)


def close(a: Flat, b: Flat) -> None:
    data = RANDOM.standard_normal(ARENA.elements).astype(np.float32)
    np.testing.assert_allclose(result(a, data), result(b, data), rtol=1e-4)


def test_rows_taken_apart() -> None:
    n = X.fresh(9)
    flat = Flat((I, n), softmax(I, n, 9), RESULT, I * 9 + n)
    parts = taken_apart(flat)
    assert parts is not None and parts.keeps_row and parts.walk == () and parts.row.value.extent == 9
    assert [c for c, _ in parts.reductions] == ["max", "add"] and len(parts.passes) == 3
    assert is_contiguous(parts) and parts.is_of_numbers
    close(flat, put_together(parts, flat))
    for address, stored in ((n * 6 + I, False), (I * 10 + n, True)):
        other = taken_apart(replace(flat, address=address))
        assert other is not None and is_contiguous(other) == stored
    k, m = X.fresh(9), X.fresh(8)
    alone = taken_apart(Flat((I,), total((k,), x(I * 9 + k)), RESULT, I * 3))
    assert alone is not None and not alone.keeps_row and is_contiguous(alone)
    apart = taken_apart(Flat((I,), total((k,), x(I + k * 6)), RESULT, I))
    assert apart is not None and not is_contiguous(apart)
    for body in (
        x(I), total((k,), x(k)) + total((m,), x(m)), total((k,), x(k)) * x(n),
        total((k,), X.call("gt", x(k), x(I)), "or"),
        total((k, m), x(k * 9 + m * 100)),
    ):  # fmt: skip
        found = taken_apart(Flat((I, n) if n in X.free_variables(body) else (I,), body, RESULT, I * 9 + n))
        assert found is None or n in X.free_variables(body), X.show(body)


def test_nests_taken_apart() -> None:
    """Rows and columns of a picture, channels last: the loop that is contiguous in memory is the row."""
    c, h, v = X.fresh(3), X.fresh(4), X.fresh(5)
    k, m = X.fresh(4), X.fresh(5)
    mean = total((k, m), x(c * 100 + k * 24 + m))
    flat = Flat((c, h, v), x(c * 100 + h * 24 + v) - mean, RESULT, c * 20 + h * 5 + v)
    parts = taken_apart_by_nests(flat)
    assert parts is not None and parts.keeps_row and len(parts.walk) == 1
    close(flat, put_together(parts, flat))
    ordered = around_row(parts)
    assert ordered is not None and ordered.row.value.extent == 5
    close(flat, put_together(ordered, flat))
    one = as_one_loop(ordered)
    assert one.walk == () and one.row.value.extent == 20 and as_one_loop(one) is one
    close(flat, put_together(one, flat))
    merged = taken_apart_by_nests(replace(flat, body=X.substitute(flat.body, {}), address=c * 20 + h * 5 + v))
    assert merged is not None
    dense = Flat((c,), total((k, m), x(c * 20 + k * 5 + m)), RESULT, c)
    together = taken_apart_by_nests(dense)
    assert together is not None and together.walk == () and together.row.value.extent == 20
    turned = Flat((c, h, v), x(c * 100 + v * 4 + h) - total((k, m), x(c * 100 + m * 4 + k)), RESULT, c * 20 + h * 5 + v)
    found = taken_apart_by_nests(turned)
    assert found is not None
    around = around_row(found)
    assert around is not None and around.row.value.extent == 4  # what is read decides
    close(turned, put_together(around, turned))
