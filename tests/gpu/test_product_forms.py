"""Sums of products as matrix products: the same numbers at the same places, and which loops are rows and columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from chance import RANDOM

from edgec.ir import expr as X
from edgec.ir.evaluate import Grid
from edgec.ir.expr import Expr
from edgec.ir.nest import most
from edgec.schedule.flat import Flat, Weights
from edgec.schedule.gpu.product import Product, apart_from_signs, product_of
from edgec.schedule.gpu.registers import inner_last
from edgec.schedule.program import Buffer

A, B = (Buffer(name, "arena", "f32", 4096) for name in "ab")
RESULT = Buffer("y", "output", "f32", 4096)
FED = {A: RANDOM.integers(-9, 10, 4096).astype(np.float32), B: RANDOM.integers(-9, 10, 4096).astype(np.float32)}
G, M, N, K, C = (X.fresh(n) for n in (3, 5, 6, 7, 4))


def a(place: Expr) -> Expr:
    return X.load(A, (place,), "f32")


def b(place: Expr) -> Expr:
    return X.load(B, (place,), "f32")


def w(place: Expr, count: int = 4096) -> Expr:
    return X.load(Weights().add(RANDOM.integers(-9, 10, count).astype(np.float32)), (place,), "f32")


def total(k: tuple[Expr, ...], body: Expr, combine: str = "add") -> Expr:
    return X.reduce(combine, k, body)  # type: ignore[arg-type]


def result(flat: Flat) -> np.ndarray:
    grid = Grid(flat.loops, lambda buffer: FED.get(buffer, buffer.data))
    shape = [v.value.extent for v in flat.loops]
    found = np.full(RESULT.elements, np.nan)
    found[np.broadcast_to(grid.value(flat.address), shape)] = np.broadcast_to(grid.value(flat.body), shape)
    return found


def again(p: Product) -> Flat:
    """The formula of a product."""
    names = tuple(X.fresh(most(v)) for v in p.k)
    body = X.reduce("add", names, X.substitute(p.s * p.l, dict(zip(p.k, names))))
    loops = (*p.batch, *p.m, *p.n)
    return Flat(loops, X.substitute(p.epilogue, {p.accumulator: body}), p.store, p.address)


MATMUL = Flat((M, N), total((K,), a(M * 7 + K) * b(K * 6 + N)), RESULT, M * 6 + N)
FLATS: dict[str, tuple[Flat, tuple[list[int], list[int], list[int], list[int]]]] = {
    "matmul": (MATMUL, ([], [5], [6], [7])),
    "weights": (replace(MATMUL, body=total((K,), w(K * 6 + N) * a(M * 7 + K)) + 1.0), ([], [5], [6], [7])),
    "turned": (replace(MATMUL, address=N * 5 + M), ([], [6], [5], [7])),
    "batch": (
        Flat((G, M, N), total((K,), a(G * 35 + M * 7 + K) * b(G * 42 + K * 6 + N)), RESULT, G * 30 + M * 6 + N),
        ([3], [5], [6], [7]),
    ),
    "one factor of a batch": (
        Flat((G, M, N), total((K,), a(G * 35 + M * 7 + K) * b(K * 6 + N)), RESULT, G * 30 + M * 6 + N),
        ([], [15], [6], [7]),
    ),
    "rows with a gap": (
        Flat((G, M, N), total((K,), a(G * 40 + M * 7 + K) * b(K * 6 + N)), RESULT, G * 30 + M * 6 + N),
        ([], [3, 5], [6], [7]),
    ),
    "two sums": (
        Flat((M, N), total((C, K), a(M * 28 + C * 7 + K) * b(C * 42 + K * 6 + N)), RESULT, M * 6 + N),
        ([], [5], [6], [28]),
    ),
    "two sums apart": (
        Flat((M, N), total((C, K), a(M * 40 + C * 8 + K) * b(C * 42 + K * 6 + N)), RESULT, M * 6 + N),
        ([], [5], [6], [4, 7]),
    ),
    "sums in another order": (
        Flat((M, N), total((C, K), a(M * 40 + K * 5 + C) * b(C * 42 + K * 6 + N)), RESULT, M * 6 + N),
        ([], [5], [6], [7, 4]),
    ),
    "columns of constants": (
        Flat((M, C, N), total((K,), a(M * 7 + K) * w(C * 100 + N * 9 + K)) * 2.0, RESULT, M * 24 + C * 6 + N),
        ([], [5], [24], [7]),
    ),
    "a number that is a loop": (
        Flat((G, M, N), total((K,), a(G * 35 + M * 7 + K) * b(K * 6 + N)) + X.cast(M, "f32"), RESULT,
             G * 30 + M * 6 + N),
        ([], [3, 5], [6], [7]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FLATS)
def test_products(name: str) -> None:
    flat, (batch, m, n, k) = FLATS[name]
    found = product_of(flat)
    assert found is not None
    assert [[most(v) for v in part] for part in (found.batch, found.m, found.n, found.k)] == [batch, m, n, k]
    assert np.array_equal(result(again(found)), result(flat), equal_nan=True)
    columns, rows = X.free_variables(found.l), X.free_variables(found.s)
    assert {*found.n} <= columns - rows and {*found.m} <= rows - columns


def test_what_is_no_product() -> None:
    long, open_ = X.fresh(X.size("r", 2, 9)), X.fresh(X.size("q", 2, 9))
    wide = X.fresh(64)
    for body, loops in (
        (total((K,), a(M * 7 + K) + b(K * 6 + N)), (M, N)), (total((K,), a(M * 7 + K) * b(K * 6 + N), "max"), (M, N)),
        (a(M) * b(N), (M, N)), (total((K,), a(K) * b(K)) * total((K,), a(K * 2) * b(K)), (M, N)),
        (total((long,), a(M * 7 + long) * b(long * 6 + N)), (M, N)),
        (total((K,), a(M * 7 + K) * b(K * 6 + open_)), (M, open_)),
        (total((K,), a(K * 64 + wide) * b(K * 64 + wide)), (M, wide)),
    ):  # fmt: skip
        flat = Flat(loops, body, RESULT, loops[0] * 64 + loops[1])
        assert product_of(flat) is None, X.show(body)
    rows = Flat((open_, N), total((K,), a(open_ * 7 + K) * b(K * 6 + N)), RESULT, open_ * 6 + N)
    assert product_of(rows) is None and product_of(rows, open_rows=True) is not None
    halves = replace(MATMUL, body=total((K,), X.load(A, (M * 7 + K,), "i32") * X.load(B, (K * 6 + N,), "i32")))
    assert product_of(halves) is None and product_of(halves, "i32") is not None


def test_the_loop_of_a_sum_that_padding_does_not_depend_on() -> None:
    """It is innermost, so that rows of an operand are inside or outside as a whole."""
    taps, channel = X.fresh(3), X.fresh(7)
    for guard, last in ((X.call("lt", M + taps, X.const(5)), channel), (X.call("lt", M + channel, X.const(9)), taps)):
        inside = X.select(guard, a(M * 7 + taps * 7 + channel), X.const(0.0, "f32"))
        p = Product(RESULT, M * 6 + N, (), (M,), (N,), (taps, channel), inside, w(taps * 42 + channel * 6 + N),
                    X.load("t", (), "f32"), X.load("t", (), "f32"))  # fmt: skip
        assert inner_last(p).k[-1] is last and {*inner_last(p).k} == {taps, channel}
        assert inner_last(replace(p, s=a(M))).k == (taps, channel)
    everywhere = X.select(X.call("lt", taps + channel, X.const(5)), a(M + taps + channel), X.const(0.0, "f32"))
    assert inner_last(replace(p, s=everywhere)) == replace(p, s=everywhere)
    assert inner_last(replace(p, k=())).k == ()


def test_signs_of_constants() -> None:
    """A product by magnitudes is one by the constants themselves, without their signs."""
    found = product_of(replace(MATMUL, body=total((K,), a(M * 7 + K) * X.call("abs", w(K * 6 + N)))))
    assert found is not None
    plain, signs = apart_from_signs(found)
    assert signs == "none" and plain.l is not found.l and all(e.op != "abs" for e in X.walk(plain.l))
    assert np.array_equal(result(again(replace(plain, l=X.call("abs", plain.l)))), result(again(found)), equal_nan=True)
    kept = product_of(MATMUL)
    assert kept is not None and apart_from_signs(kept) == (kept, "kept")
