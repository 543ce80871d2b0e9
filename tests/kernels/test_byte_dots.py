"""Sums of products of bytes as dot products: recognized factors, packed words and what sums start at.

Each is compared with the sum as it is written, in whole numbers, on every machine that takes bytes in another form.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from chance import RANDOM

from edgec.device.load import load_device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.schedule.contract.int8_dot import (
    DotGroup,
    int8_of,
    int8_sum,
    packed_dots,
    taps_of,
    with_bias_inside,
    with_numbers_in_memory,
)
from edgec.schedule.flat import Weights, evaluate_over
from edgec.schedule.program import Buffer

#: VNNI takes unsigned bytes, NEON without i8mm signed ones; with it, both.
DEVICES = ("x86_64_avx512_vnni", "pixel_8", "raspberry_pi_5", "arm64_i8mm")


def byte(dtype: str = "u8", *place: Expr) -> Expr:
    return X.load(Buffer("x", "arena", dtype, 1 << 12), place or (X.const(0),), dtype)


def i32(number: int) -> Expr:
    return X.const(number, "i32")


def constant(weights: Weights, value: np.ndarray, *loops: Expr) -> Expr:
    """Elements of a constant over loops, row by row."""
    place = X.const(0)
    for v in loops:
        place = place * v.value.extent + v
    return X.cast(X.load(weights.add(value), (place,), str(value.dtype.name).replace("int", "i")), "i32")


def test_bytes_and_what_a_factor_is_more_than_they() -> None:
    b = X.cast(byte(), "i32")
    other = X.cast(byte("i8"), "i32")
    table = (
        (b, 0), (b + i32(3), 3), (X.call("add", i32(3), b), 3), (b - i32(5), -5), (b + i32(4) - i32(6), -2),
        (X.call("sub", i32(5), b), None), (b + other, None), (b * i32(3), None), (X.cast(byte("i16"), "i32"), None),
        (i32(7), None),
    )  # fmt: skip
    for factor, offset in table:
        found = int8_of(factor)
        assert found == (None if offset is None else (b.args[0], offset)), factor


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("dtype", "offset"), [("u8", 0), ("u8", -7), ("i8", 0), ("i8", 5)])
@pytest.mark.parametrize("outer", [(), (2,), (2, 3)])
def test_taps_of_a_window_add_up_to_the_sum(device: str, dtype: str, offset: int, outer: tuple[int, ...]) -> None:
    for along, across in product((2, 3, 4, 5, 9), (1, 3)):
        weights = Weights()
        groups = tuple(X.fresh(e) for e in outer)
        n, a, b = X.fresh(5), X.fresh(along), X.fresh(across)
        names = tuple(v for v in (b, a) if v.op == "var")
        w = RANDOM.integers(-128, 128, (*outer, across, along, 5)).astype(np.int8)
        place = a * 40 + b * 3 + n
        factor = X.cast(byte(dtype, place), "i32") + i32(offset)
        order = (*groups, *names, n)
        body = factor * constant(weights, w.reshape([v.value.extent for v in order]), *order)
        found = taps_of(load_device(device), X.reduce("add", names, body), (*groups, n), n, weights)
        assert found is not None and found.dots == -(-along // 4)
        assert found.along.value.extent == along and found.x.value.name == "x"
        over = (*groups, found.place, n)
        words = np.ascontiguousarray(evaluate_over(found.word, over).astype(np.int32)[..., None]).view(np.int8)
        starts = evaluate_over(found.start, (*groups, n)).astype(np.int64)
        x = RANDOM.integers(0, 256, (across, along, 5)).astype(np.uint8).view(np.int8 if dtype == "i8" else np.uint8)
        taken = (x.view(np.uint8) ^ (128 if found.flip else 0)).view(np.int8 if found.is_signed else np.uint8)
        padded = np.zeros((across, found.dots * 4, 5), np.int64)
        padded[:, :along] = taken
        lanes = padded.reshape(across * found.dots, 4, 5).swapaxes(1, 2)
        got = starts + (words.astype(np.int64) * lanes).sum((-1, -3))
        want = ((x.astype(np.int64) + offset) * w.astype(np.int64)).sum((-3, -2))
        assert np.array_equal(got, want), (along, across)


def window(**changed: object) -> tuple[Expr, tuple[Expr, ...], Expr, Weights]:
    """A sum over taps, its loops, its lanes and constants; what is ``changed`` makes it another sum."""
    weights = Weights()
    n, k = X.fresh(5), X.fresh(int(str(changed.get("taps", 3))))
    x = X.cast(byte(str(changed.get("dtype", "u8")), k * 5 + n), str(changed.get("sums", "i32")))
    low = int(str(changed.get("low", -128)))
    values = np.linspace(low, int(str(changed.get("high", 127))), 5 * k.value.extent).astype(np.int16)
    loops = (k, n) if changed.get("lanes", True) else (k,)
    w = constant(weights, values.reshape(k.value.extent, 5)[:, : 5 if len(loops) > 1 else 1], *loops)
    w = w if changed.get("constant", True) else X.cast(byte("i8", k), "i32")
    body = {"mul": x * w, "add": x + w, "turned": w * x}[str(changed.get("body", "mul"))]
    return X.reduce(str(changed.get("combine", "add")), (k,), body), (n,), n, weights


@pytest.mark.parametrize(
    ("changed", "is_taken"),
    [
        ({}, True), ({"body": "turned"}, True), ({"taps": 2}, True), ({"combine": "max"}, False),
        ({"body": "add"}, False), ({"dtype": "i16"}, False), ({"constant": False}, False), ({"low": -129}, False),
        ({"high": 128}, False), ({"lanes": False}, False),
    ],
    ids=str,
)  # fmt: skip
def test_sums_that_are_dots_of_taps(changed: dict[str, object], is_taken: bool) -> None:
    assert (taps_of(load_device("pixel_8"), *window(**changed)) is not None) == is_taken
    for device in ("x86_64_avx2", "raspberry_pi_3", "generic"):
        assert taps_of(load_device(device), *window(**changed)) is None  # it has no such instruction


@pytest.mark.parametrize(
    ("low", "high", "column"),
    [(-128, 127, 0), (-129, 126, -1), (0, 255, 128), (1, 255, 128), (-1, 254, 127), (-1, 255, None), (300, 555, None)],
)
def test_offsets_of_columns(low: int, high: int, column: int | None) -> None:
    """Constants fit into bytes once an offset is taken off, where their range (with 0) has no more than 256 numbers."""
    weights, k, n = Weights(), X.fresh(4), X.fresh(3)
    values = np.full((4, 3), low, np.int16)
    values[2, 1] = high
    l = constant(weights, values, k, n)
    found = int8_sum(load_device("pixel_8"), (k,), X.cast(byte("u8", k), "i32") - i32(9), l, 1)
    assert (found is None) == (column is None)
    if found is not None:
        assert (found[0].column_offset, found[1], found[0].signed) == (column, -9, False)


def test_offsets_of_columns_from_memory() -> None:
    device, k, n = load_device("pixel_8"), X.fresh(4), X.fresh(3)
    s = X.cast(byte("i8", k), "i32")
    for dtype, offset, column in (("u8", 0, 128), ("u8", -3, 125), ("i8", 0, 0), ("i8", 4, 4)):
        found = int8_sum(device, (k,), s, X.cast(byte(dtype, k * 3 + n), "i32") + i32(offset), 1)
        assert found is not None and (found[0].column_offset, found[0].signed, found[1]) == (column, True, 0)
    assert int8_sum(device, (k,), s, X.cast(byte("i16", k), "i32"), 1) is None
    open_sum = X.fresh(X.size("m", 1, 9))
    assert int8_sum(device, (open_sum,), X.cast(byte("i8", open_sum), "i32"), i32(3), 1) is None
    assert int8_sum(device, (k,), X.cast(byte("i8", k // 2), "i32"), i32(3), 1) is None  # no steps of one size


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize(("extent", "columns", "width"), [(2, 1, 4), (3, 5, 4), (8, 8, 8), (9, 5, 2), (17, 7, 16)])
@pytest.mark.parametrize("has_start", [False, True])
def test_packed_panels(size: int, extent: int, columns: int, width: int, has_start: bool) -> None:
    """Each panel: what its columns start at, then the bytes of every step, those of one column next to each other."""
    weights = Weights()
    g, outer, k, n = X.fresh(2), X.fresh(3), X.fresh(extent), X.fresh(columns)
    values = RANDOM.integers(-100, 156, (2, 3, extent, columns)).astype(np.int16)
    loops = [v for v in (g, outer, k, n) if v.op == "var"]
    l = constant(weights, values.reshape([v.value.extent for v in loops]), *loops)
    whole, rest = divmod(extent, size)
    dots = DotGroup(k, whole, rest, 1, row_offset=-11, column_offset=28)
    bias = RANDOM.integers(-1000, 1000, (2, columns)).astype(np.int32)
    start = constant(weights, bias.reshape(2, *([columns] if columns > 1 else [])), g, *([n] if columns > 1 else []))
    sums = tuple(v for v in (outer, k) if v.op == "var")
    found = packed_dots(l, dots, size, (g,), sums, n, width, start if has_start else None)
    panels, steps = -(-columns // width), 3 * dots.count
    assert found.shape == (2, panels, 1 + steps * size // 4, width) and found.dtype == np.int32
    first = found[:, :, 0].reshape(2, -1)
    want = -11 * values.astype(np.int64).sum((1, 2)) + (bias if has_start else 0)
    assert np.array_equal(first[:, :columns], want) and not first[:, columns:].any()
    plain = np.zeros((2, 3, dots.count * size, panels * width), np.int64)
    plain[:, :, :extent, :columns] = values - 28
    split = plain.reshape(2, 3 * dots.count, size, panels, width)
    taken = np.ascontiguousarray(found[:, :, 1:]).view(np.int8).reshape(2, panels, steps, width, size)
    assert np.array_equal(taken, split.transpose(0, 3, 1, 4, 2))


def test_a_bias_that_accumulators_start_at() -> None:
    """It is added first, constant, over known loops, and nothing else reads the sum."""
    weights, n, m = Weights(), X.fresh(5), X.fresh(2)
    total = X.load("sum", (n,), "i32")
    bias = constant(weights, np.arange(5, dtype=np.int32), n)
    over_rows = constant(weights, np.arange(2, dtype=np.int32), m)
    read = X.cast(byte("i8", n), "i32")
    for added in (total + bias, X.call("add", bias, total)):
        assert with_bias_inside(added * i32(3), total, {n}) == (total * i32(3), bias)
    for epilogue in (
        total * i32(3), total - bias, total + total, total + over_rows, total + read, (total + bias) * total,
        total * i32(2) + bias,
    ):  # fmt: skip
        assert with_bias_inside(epilogue, total, {n}) == (epilogue, None)
    assert with_bias_inside(total + over_rows, total, {n, m}) == (total, over_rows)


def test_numbers_of_a_whole_tensor_are_in_memory_but_bounds_are_not() -> None:
    weights = Weights()
    x = X.load("sum", (X.fresh(5),), "f32")
    scaled = X.call("min", X.call("max", x * 0.25 + 3.0, X.const(-1.0, "f32")), X.const(7.0, "f32"))
    found = with_numbers_in_memory(scaled, weights)
    loads = {e.value.data[int(e.args[0].value)] for e in X.loads(found) if isinstance(e.value, Buffer)}
    assert loads == {0.25, 3.0}
    assert {e.value for e in X.walk(found) if e.op == "const" and e.dtype == "f32"} == {-1.0, 7.0}
    plain = X.call("max", x, X.const(0.0, "f32"))
    assert with_numbers_in_memory(plain, weights) is plain
    whole = X.load("sum", (X.fresh(5),), "i32") + i32(3)
    assert with_numbers_in_memory(whole, weights) is whole
