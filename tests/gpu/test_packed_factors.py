"""Constant factors of products in registers, as they are packed for OpenCL: blocks, dots of bytes, initial sums.

Each result is computed again from the packed words, and compared with the formula in whole numbers.
"""

from __future__ import annotations

from math import ceil, prod

import numpy as np
import pytest
from chance import RANDOM

from edgec.device.load import load_device
from edgec.ir import expr as X
from edgec.ir.evaluate import Grid
from edgec.ir.expr import Expr
from edgec.ir.nest import most
from edgec.schedule.flat import Flat, Weights
from edgec.schedule.gpu.dots import dots
from edgec.schedule.gpu.product import product_of
from edgec.schedule.gpu.registers import registers
from edgec.schedule.program import Buffer

DEVICE = load_device("mali_g78")
RESULT = Buffer("y", "output", "f32", 8192)


def loop(extent: int) -> Expr:
    return X.fresh(extent)


def held(weights: Weights, values: np.ndarray, *loops: Expr) -> Expr:
    """A constant over loops, row by row."""
    place = X.const(0)
    for v in loops:
        place = place * most(v) + v
    return X.load(weights.add(values), (place,), values.dtype.name.replace("int", "i").replace("float", "f"))


def formula(e: Expr, loops: tuple[Expr, ...], fed: dict[Buffer, np.ndarray]) -> np.ndarray:
    """Its values over loops, one dimension each."""
    real = tuple(v for v in loops if v.op == "var")
    found = np.broadcast_to(Grid(real, lambda b: fed.get(b, b.data)).value(e), [most(v) for v in real])
    return np.asarray(found).reshape([most(v) for v in loops])


@pytest.mark.parametrize(
    ("batch", "m", "n", "k", "dtype", "offset", "has_bias"),
    [
        ((), 5, 8, (16,), "i8", 0, False), ((), 3, 12, (7,), "u8", -3, True), ((), 9, 20, (3, 5), "i8", 4, True),
        ((), 1, 4, (1, 4), "u8", 0, True), ((3,), 4, 8, (6,), "i8", -1, True), ((), 17, 33, (9,), "u8", 2, False),
    ],
)  # fmt: skip
def test_dots_of_bytes(
    batch: tuple[int, ...], m: int, n: int, k: tuple[int, ...], dtype: str, offset: int, has_bias: bool
) -> None:
    weights, group, rows, columns = Weights(), tuple(map(loop, batch)), loop(m), loop(n)
    names = tuple(v for v in map(loop, k) if v.op == "var")
    depth = prod(k)
    x = Buffer("x", "arena", dtype, 4096)
    place = X.const(0)
    for v in (*group, rows, *names):
        place = place * most(v) + v
    values = RANDOM.integers(-128, 128, [*batch, *(most(v) for v in names), n]).astype(np.int8)
    s = X.cast(X.load(x, (place,), dtype), "i32") + X.const(offset, "i32")
    l = X.cast(held(weights, values, *group, *names, columns), "i32")
    total = X.reduce("add", names, s * l)
    bias = held(weights, RANDOM.integers(-999, 999, n).astype(np.int32), columns)
    body = X.cast(total + bias if has_bias else total, "f32") * 0.5
    loops = tuple(v for v in (*group, rows, columns) if v.op == "var")
    address = X.const(0)
    for v in (*group, rows, columns):
        address = address * most(v) + v
    flat = Flat(loops, body, RESULT, address)
    found = dots(flat, DEVICE, weights)
    assert found is not None and found.s is x and found.types == (dtype, "i8")
    assert found.s_dots == (depth % 4 == 0 or m == 1)
    fed = {x: RANDOM.integers(0, 256, 4096).astype(np.uint8).view(np.int8 if dtype == "i8" else np.uint8)}
    inner = found.k[-1]
    want = formula(flat.body, (*group, rows, columns), fed)
    width = found.vectors * found.lanes
    steps = ceil(most(inner) / 4)
    panels, outer = ceil(n / width), depth // most(inner)
    assert (most(found.panel) if found.panel.op == "var" else 1) == panels
    packed = found.l.data.reshape(*batch, panels, 1 + outer * steps, width)
    places = formula(found.l_place, (*group, found.panel), fed)
    strides = np.arange(prod(packed.shape[:-2])).reshape(*batch, panels) * (packed.shape[-2] * width)
    assert np.array_equal(places, strides)
    words = np.ascontiguousarray(packed[..., 1:, :]).view(np.uint8).reshape(*batch, panels, outer, steps * 4, width, 1)
    raw = np.ascontiguousarray(packed[..., 1:, :, None]).view(np.int8)  # [.., panel, dot, column, byte of four]
    raw = raw.reshape(*batch, panels, outer, steps, width, 4).swapaxes(-1, -2).reshape(
        *batch, panels, outer, steps * 4, width)  # fmt: skip
    assert words.size == raw.size
    bytes_of = formula(X.load(x, (place,), dtype), (*group, rows, *names), fed).astype(np.int64)
    bytes_of = bytes_of.reshape(*batch, m, outer, most(inner))
    padded = np.zeros((*batch, m, outer, steps * 4), np.int64)
    padded[..., : most(inner)] = bytes_of
    sums = np.einsum("...mok,...pokw->...mpw", padded, raw.astype(np.int64)) + packed[..., None, :, 0, :]
    sums = sums.reshape(*batch, m, panels * width)[..., :n]
    accumulators = np.asarray(sums, np.float32) if found.accumulator.dtype == "f32" else sums
    assert np.array_equal(accumulators * np.float32(0.5), want.reshape(sums.shape))
    assert not raw.reshape(*batch, panels, outer, steps * 4, width)[..., most(inner) :, :].any()


@pytest.mark.parametrize(
    ("batch", "m", "n", "k"), [((), 5, 8, (16,)), ((), 3, 36, (7,)), ((), 9, 20, (3, 5)), ((3,), 4, 8, (6,))]
)
def test_blocks_of_floats(batch: tuple[int, ...], m: int, n: int, k: tuple[int, ...]) -> None:
    weights, group, rows, columns, names = Weights(), tuple(map(loop, batch)), loop(m), loop(n), tuple(map(loop, k))
    x = Buffer("x", "arena", "f32", 4096)
    place = X.const(0)
    for v in (*group, rows, *names):
        place = place * (most(v) + (v is rows)) + v
    values = RANDOM.integers(-9, 10, (*batch, *k, n)).astype(np.float32)
    body = X.reduce("add", names, X.load(x, (place,), "f32") * held(weights, values, *group, *names, columns)) + 1.0
    address = X.const(0)
    for v in (*group, rows, columns):
        address = address * most(v) + v
    flat = Flat((*group, rows, columns), body, RESULT, address)
    product = product_of(flat)
    assert product is not None
    found = registers(product, DEVICE, weights)
    assert found is not None and found.edge is None
    width, depth = found.vectors * found.lanes, prod(k)
    panels = ceil(n / width)
    packed = found.l.data.reshape(*batch, panels, depth, width).astype(np.float32)
    whole = np.moveaxis(packed, -3, -2).reshape(*batch, depth, panels * width)
    assert np.array_equal(whole[..., :n], values.reshape(*batch, depth, n)) and not whole[..., n:].any()
    places = formula(found.l_place, (*found.batch, found.panel, *found.k[:-1]), {})
    starts = np.arange(prod(batch) * panels).reshape(*batch, panels, *(1 for _ in found.k[:-1])) * (depth * width)
    steps = np.arange(depth // most(found.k[-1])) * most(found.k[-1]) * width
    assert np.array_equal(places, starts + steps if len(found.k) > 1 else starts) and found.l_step == width
