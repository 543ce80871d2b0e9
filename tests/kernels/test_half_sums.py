"""Sums in 16 bits as numbers: scales of columns, parts of sums, ends of results and packed pairs, without a machine."""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod

import ml_dtypes
import numpy as np
import pytest
from chance import RANDOM

from edgec.device.load import load_device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.schedule.contract.bf16_dot import bf16_sum, packed_pairs
from edgec.schedule.contract.fp16_epilogue import fp16_epilogue
from edgec.schedule.contract.fp16_sums import LARGEST, TERMS, TURN, fp16_sum, in_fp16, taps_in_fp16
from edgec.schedule.contract.int8_dot import DotGroup
from edgec.schedule.contract.micro_kernel import Sum
from edgec.schedule.flat import Weights, evaluate_over
from edgec.schedule.program import Buffer

DEVICE = replace(load_device("pixel_8"), precision="fp16")
HALF, FLOAT = (Buffer(f"x{dtype}", "arena", dtype, 1 << 14) for dtype in ("f16", "f32"))
N = X.fresh(5)


def x(place: Expr, buffer: Buffer = HALF) -> Expr:
    return X.load(buffer, (place,), "f32")


def held(weights: Weights, values: np.ndarray, *loops: Expr) -> Expr:
    place = X.const(0)
    for v in loops:
        place = place * v.value.extent + v
    return X.load(weights.add(values), (place,), "f32")


def weights_of(*shape: int) -> np.ndarray:
    """Columns of many sizes, one of zeros, one that is no number."""
    values = RANDOM.standard_normal(shape) * 10.0 ** np.arange(-2, 3)
    values[..., 3] = 0
    return values.astype(np.float32)


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    "extents", [(1,), (7,), (64,), (65,), (130,), (3, 70), (70, 3), (5, 13), (2, 3, 300), (9, 9, 2)]
)
def test_weights_of_a_part_are_no_more_than_one_together(extents: tuple[int, ...], groups: int, in_order: bool) -> None:
    """By the least power of two; a part is as many iterations of one loop, with all inside it."""
    weights, outer = Weights(), X.fresh(groups)
    k = tuple(v for v in map(X.fresh, extents) if v.op == "var")
    values = weights_of(groups, *extents, 5)
    loops = tuple(v for v in (outer, *k, N) if v.op == "var")
    l = held(weights, values.reshape([v.value.extent for v in loops]), *loops)
    of = fp16_sum(DEVICE, k, x(k[-1] if k else X.const(0)), l, 1, ())
    assert of is not None
    found = in_fp16(of, (outer,) if groups > 1 else (), N, in_order, weights)
    split, rounds = found.parts.split, found.parts.rounds
    real = [v.value.extent for v in k]
    inside = prod(real[split + 1 :])
    assert rounds * inside <= TERMS or rounds == 1
    assert found.is_whole == (prod(real) <= TERMS)
    if in_order and split == len(real) - 1 and real and rounds < real[-1]:
        assert rounds % TURN == 0 and (real[-1] % rounds == 0 or real[-1] % rounds >= TURN)
    shape = (groups, prod(real[:split]), real[split] if real else 1, inside, 5)
    terms = np.abs(values.astype(np.float64)).reshape(shape).sum(3)
    parts = [terms[:, :, a : a + rounds].sum(2) for a in range(0, shape[2], rounds)]
    most = np.max(parts, axis=(0, 2))  # [groups, columns]
    powers = found.powers.reshape(groups, 5)
    assert (most <= LARGEST * powers).all() and (powers[:, 3] == 1).all()
    assert (most > LARGEST * powers / 2)[:, [0, 1, 2, 4]].all()
    assert np.array_equal(np.log2(powers), np.round(np.log2(powers)))
    assert np.array_equal(evaluate_over(found.scale, (outer, N)).reshape(groups, 5), powers)


def test_weights_without_a_scale() -> None:
    weights, k = Weights(), X.fresh(4)
    values = np.array([[1e-40, np.inf, np.nan, 0, 1e38]] * 4, np.float32)
    of = fp16_sum(DEVICE, (k,), x(k), held(weights, values, k, N), 1, ())
    assert of is not None
    powers = in_fp16(of, (), N, False, weights).powers[0]
    assert powers.tolist() == [2.0**-100, 1, 1, 1, 2.0**100]


def test_sums_of_halves() -> None:
    k, open_ = X.fresh(9), X.fresh(X.size("m", 2, 9))
    l = X.const(1.0, "f32")
    for s, loops, others, fits in (
        (x(k * 3 + N), (k,), (N,), True), (x(k, FLOAT), (k,), (), False), (x(k) * 2.0, (k,), (), False),
        (x(open_), (open_,), (), False), (x(k), (k,), (open_,), False), (x(k // 2), (k,), (), False),
    ):  # fmt: skip
        assert (fp16_sum(DEVICE, loops, s, l, 1, others) is not None) == fits
        brain = X.substitute(s, {}) if s.op != "load" else X.load(
            replace(s.value, dtype="bf16") if s.value is HALF else FLOAT, s.args, "f32")  # fmt: skip
        assert (bf16_sum(DEVICE, loops, brain, l, 1) is not None) == (fits or others == (open_,))


def test_sums_of_one_term() -> None:
    """A loop that runs once is none: it has one element, in steps of nothing."""
    k, one = X.fresh(9), X.const(0)
    for loops, s, extent, step in (
        ((k,), x(k * 3 + N), 9, 3), ((k, one), x(k * 3), 1, 0), ((one,), x(N), 1, 0), ((), x(N), 1, 0),
        ((k,), x(k) * 2.0, 9, 0), ((k,), x(N), 9, 0), ((k,), x(k), 9, 1),
    ):  # fmt: skip
        of = Sum(DEVICE, "fp32", loops, s, X.const(1.0, "f32"), 1)
        assert (of.extent, of.step, of.is_contiguous) == (extent, step, step == 1)
        assert [of.steps(size) for size in (1, 4, 16)] == [-(-extent // size) for size in (1, 4, 16)]


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(("outer", "k", "columns", "width"), [
    ((), (2,), 5, 4), ((3,), (7,), 8, 8), ((2,), (3, 5), 9, 4), ((), (4, 8), 1, 4), ((2, 2), (2, 2), 3, 2),
])  # fmt: skip
def test_pairs_of_a_panel(size: int, outer: tuple[int, ...], k: tuple[int, ...], columns: int, width: int) -> None:
    weights, around, names = Weights(), tuple(map(X.fresh, outer)), tuple(map(X.fresh, k))
    n = X.fresh(columns)
    values = RANDOM.standard_normal((*outer, *k, columns)).astype(np.float32)
    loops = tuple(v for v in (*around, *names, n) if v.op == "var")
    l = held(weights, values.reshape([v.value.extent for v in loops]), *loops)
    whole, rest = divmod(k[-1], size)
    dots = DotGroup(names[-1], whole, rest, 1)
    found = packed_pairs(l, dots, size, around, names, n, width)
    panels, steps = -(-columns // width), prod(k[:-1]) * dots.count
    assert found.shape == (prod(outer), panels, steps * size // 2, width)
    want = np.zeros((prod(outer), prod(k[:-1]), dots.count * size, panels * width), ml_dtypes.bfloat16)
    want[:, :, : k[-1], :columns] = values.reshape(prod(outer), prod(k[:-1]), k[-1], columns)
    want = want.reshape(prod(outer), steps, size, panels, width).transpose(0, 3, 1, 4, 2)
    got = np.ascontiguousarray(found).view(ml_dtypes.bfloat16).reshape(prod(outer), panels, steps, width, size)
    assert np.array_equal(got.astype(np.float32), want.astype(np.float32))


TOTAL = X.load(Buffer("sum", "scratch", "f32", 1), (X.const(0),), "f32")
STORE = Buffer("y", "arena", "f16", 4096)


def least(e: Expr, number: float) -> Expr:
    return X.call("max", e, X.const(number, "f32"))


def most(e: Expr, number: float) -> Expr:
    return X.call("min", e, X.const(number, "f32"))


@pytest.mark.parametrize(
    ("made", "low", "high", "bias"),
    [
        (lambda e, b: e, -inf, inf, False),
        (lambda e, b: e + b, -inf, inf, True),
        (lambda e, b: X.call("add", b, e), -inf, inf, True),
        (lambda e, b: least(e + b, 0.0), 0, inf, True),
        (lambda e, b: most(least(e, -1.0), 6.0), -1, 6, False),
        (lambda e, b: least(most(e + b, 6.0), -1.0), -1, 6, True),
        (lambda e, b: X.call("min", X.const(6.0, "f32"), e), -inf, 6, False),
        (lambda e, b: least(least(e, 1.0), 2.0), 2, inf, False),
        (lambda e, b: most(most(e, 3.0), 5.0), -inf, 3, False),
        (lambda e, b: most(least(e, 2.0), 2.0), 2, 2, False),
    ],
)
def test_ends_of_results(made, low: float, high: float, bias: bool) -> None:  # type: ignore[no-untyped-def]
    weights, powers = Weights(), np.array([[0.5, 1, 2, 4, 1024]])
    own = held(weights, np.arange(5, dtype=np.float32) * 100, N)
    found = fp16_epilogue(made(TOTAL, own), TOTAL, powers, (), N, STORE, N, weights)
    assert found is not None and (found.low, found.high) == (low, high)
    assert np.array_equal(evaluate_over(found.scale, (N,)), powers[0])
    assert np.array_equal(evaluate_over(found.bias, (N,)), np.arange(5) * 100.0 * bias)
    assert found.scale.value.data.size == 5 + 8 and not found.scale.value.data[5:].any()
    for number in (-3.0, 0.5, 2.0, 9.0):
        given = {TOTAL: X.const(number, "f32")}
        got, want = (
            evaluate_over(X.substitute(e, given), (N,)) for e in (found.of(TOTAL), made(TOTAL * found.scale, own))
        )
        np.testing.assert_array_equal(got, np.broadcast_to(want, got.shape))


def test_ends_that_need_floats() -> None:
    weights, powers = Weights(), np.ones((1, 5))
    own = held(weights, np.arange(5, dtype=np.float32), N)
    large = held(weights, np.full(5, 65520.0, np.float32), N)
    other = held(weights, np.arange(5, dtype=np.float32), X.fresh(5))
    fitting = held(weights, np.full(5, 65504.0, np.float32), N)

    def end(e: Expr, scales: np.ndarray = powers, store: Buffer = STORE, address: Expr = N) -> bool:
        return fp16_epilogue(e, TOTAL, scales, (), N, store, address, weights) is not None

    assert end(TOTAL) and end(TOTAL + fitting) and end(least(TOTAL, 65504.0))
    for e in (
        TOTAL + large, TOTAL + other, TOTAL + x(N), TOTAL * own, TOTAL - own, X.call("exp", TOTAL), TOTAL + TOTAL,
        least(TOTAL, 0.1), least(TOTAL, 65536.0), X.call("max", TOTAL, own), most(least(TOTAL, 2.0), 1.0), own,
    ):  # fmt: skip
        assert not end(e), X.show(e)
    assert not end(TOTAL, powers * 2.0**-30) and not end(TOTAL, powers * 2.0**16) and end(TOTAL, powers * 2.0**-24)
    assert not end(TOTAL, store=replace(STORE, dtype="f32")) and not end(TOTAL, address=N * 2)


def taps(
    count: int = 9, groups: int = 1, buffer: Buffer = HALF, step: int = 1, combine: str = "add", op: str = "mul",
    known: bool = True,
) -> tuple[Expr, tuple[Expr, ...], Weights, np.ndarray]:  # fmt: skip
    weights, k, group = Weights(), X.fresh(count), X.fresh(groups)
    loops = tuple(v for v in (group, k, N) if v.op == "var")
    values = RANDOM.standard_normal([v.value.extent for v in loops]).astype(np.float32)
    w = held(weights, values, *loops) if known else x(k * 5 + N, FLOAT)
    body = X.call(op, x(k * 7 + N * step + group, buffer), w)
    total = X.reduce(combine, (k,), body)  # type: ignore[arg-type]
    return total, tuple(v for v in (group, N) if v.op == "var"), weights, values


@pytest.mark.parametrize(("count", "groups"), [(9, 1), (2, 3), (TERMS, 1)])
def test_taps_in_halves(count: int, groups: int) -> None:
    """The same sum up to the rounding of weights, by weights that are no more than one together."""
    total, loops, weights, values = taps(count, groups)
    for store, has_end in ((STORE, True), (replace(STORE, dtype="f32"), False)):
        found = taps_in_fp16(DEVICE, total, least(total, 0.0), loops, N, store, N, weights)
        assert found is not None and (found[2] is not None) == has_end
        (factor,) = (e for e in X.loads(found[0]) if e.value.space == "weights")
        assert factor.value.dtype == "f16" and np.abs(factor.value.data.astype(np.float32)).max() <= LARGEST
        bare = X.substitute(found[1], {found[0]: X.const(1.0, "f32")})
        scale = evaluate_over(bare, loops).reshape(-1, 5)
        packed = factor.value.data.astype(np.float64).reshape(-1, count, 5)
        np.testing.assert_allclose(packed * scale[:, None], values.reshape(-1, count, 5), rtol=2**-10, atol=1e-6)


def test_taps_that_stay_floats() -> None:
    for changed in (
        {"count": TERMS + 1}, {"buffer": FLOAT}, {"step": 2}, {"combine": "max"}, {"op": "add"}, {"known": False},
    ):  # fmt: skip
        total, loops, weights, _ = taps(**changed)  # type: ignore[arg-type]
        assert taps_in_fp16(DEVICE, total, total, loops, N, STORE, N, weights) is None, changed
    total, loops, weights, _ = taps()
    assert taps_in_fp16(load_device("x86_64_avx2"), total, total, loops, N, STORE, N, weights) is None
