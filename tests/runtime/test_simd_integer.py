"""Lanes of integers and narrow memory (ec_simd_integer.h), exact, in every build."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from chance import RANDOM
from test_simd import Shim, edge, shim

__all__ = ["edge", "shim"]  # fixtures

EDGES = [0, 1, -1, 2, 7, 127, 128, -128, -129, 255, 256, 32767, -32768, 65535, 2**30, -(2**30), 2**31 - 1, -(2**31)]
TYPES = {"u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16, "i32": np.int32, "bool": np.uint8,
         "f16": np.uint16, "bf16": np.uint16}  # fmt: skip
Ints = np.ndarray


def pairs() -> tuple[Ints, Ints]:
    """All pairs of edges, and random ones; of a length that every vector divides."""
    a, b = (m.reshape(-1) for m in np.meshgrid(EDGES, EDGES))
    more = RANDOM.integers(-(2**31), 2**31, (2, 16 * 40 - a.size % 16))
    return tuple(np.concatenate([x, y]).astype(np.int32) for x, y in zip((a, b), more))  # type: ignore[return-value]


def called(shim: Shim, name: str, *operands: np.ndarray) -> Ints:
    y = np.zeros(operands[0].size, np.int32)
    shim.call(f"int_{name}", *operands, y, ctypes.c_int64(y.size))
    return y


def wrapped(x: np.ndarray) -> Ints:
    return x.astype(np.int64).astype(np.int32)


def shifted(left: bool) -> Callable[[Ints, Ints], Ints]:
    def shift(a: Ints, n: Ints) -> Ints:
        inside = (n >= 0) & (n < 32)
        by = np.where(inside, n, 0)
        beyond = np.zeros_like(a) if left else a >> 31
        return np.where(inside, np.left_shift(a, by) if left else a >> by, beyond)

    return shift


TWO: dict[str, Callable[[Ints, Ints], Ints]] = {
    "add_i": lambda a, b: a + b, "sub_i": lambda a, b: a - b, "mul_i": lambda a, b: a * b, "min_i": np.minimum,
    "max_i": np.maximum, "shl_i": shifted(True), "shr_i": shifted(False), "bitand_i": np.bitwise_and,
    "bitor_i": np.bitwise_or, "bitxor_i": np.bitwise_xor,
    "mulhigh": lambda a, b: wrapped((a.astype(np.int64) * b + 2**30) >> 31),
    "lt_i": lambda a, b: -(a < b).astype(np.int32), "le_i": lambda a, b: -(a <= b).astype(np.int32),
    "gt_i": lambda a, b: -(a > b).astype(np.int32), "ge_i": lambda a, b: -(a >= b).astype(np.int32),
    "eq_i": lambda a, b: -(a == b).astype(np.int32), "ne_i": lambda a, b: -(a != b).astype(np.int32),
}  # fmt: skip
ONE: dict[str, Callable[[Ints], Ints]] = {
    "neg_i": np.negative, "abs_i": np.abs, "sign_i": np.sign, "bitnot_i": np.invert,
    "as_i8": lambda a: a.astype(np.int8), "as_i16": lambda a: a.astype(np.int16),
    "as_u8": lambda a: a.astype(np.uint8), "as_u16": lambda a: a.astype(np.uint16),
}  # fmt: skip


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_integers(shim: Shim, name: str) -> None:
    a, b = pairs()
    if name.startswith("sh"):
        b = np.where(np.arange(b.size) % 2, b % 33, b)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(called(shim, name, a, b), TWO[name](a, b))


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_integer(shim: Shim, name: str) -> None:
    a, _ = pairs()
    np.testing.assert_array_equal(called(shim, name, a), ONE[name](a).astype(np.int32))


def test_fixed_point_products_are_exact(shim: Shim) -> None:
    a, b = pairs()
    n = (np.arange(a.size) % 64).astype(np.int32)
    want = [(int(x) * int(y) + ((1 << int(k)) >> 1)) for x, y, k in zip(a, b, n)]
    whole = [((w + 2**63) % 2**64 - 2**63) >> int(k) for w, k in zip(want, n)]
    np.testing.assert_array_equal(called(shim, "mulshift", a, b, n), wrapped(np.array(whole, np.int64)))
    np.testing.assert_array_equal(called(shim, "mulshift", a, b, np.full_like(n, 31)), called(shim, "mulhigh", a, b))


def test_selection_and_reductions(shim: Shim) -> None:
    a, b = pairs()
    mask = -(np.arange(a.size) % 3 == 0).astype(np.int32)
    np.testing.assert_array_equal(called(shim, "select_i", mask, a, b), np.where(mask, a, b))
    for start in range(0, a.size - 15, 16):
        x, y = a[start : start + shim.lanes].copy(), np.zeros(4, np.int32)
        shim.call("int_across", x, y)
        with np.errstate(over="ignore"):
            assert y.tolist() == [x.sum(dtype=np.int32), x.prod(dtype=np.int32), x.min(), x.max()]


@pytest.mark.parametrize("name", ["dot_us", "dot_ss"])
def test_products_of_bytes_do_not_saturate(shim: Shim, name: str) -> None:
    extremes = np.array([0x80, 0x7F, 0xFF, 0, 1], np.uint8)
    s, l = (np.concatenate([RANDOM.choice(extremes, 960), RANDOM.integers(0, 256, 960).astype(np.uint8)]) for _ in "sl")
    c = RANDOM.integers(-(2**31), 2**31, s.size // 4).astype(np.int32)
    left = s.view(np.int8) if name == "dot_ss" else s
    products = left.astype(np.int64) * l.view(np.int8)
    want = wrapped(c + products.reshape(-1, 4).sum(1))
    np.testing.assert_array_equal(called(shim, name, c, s.view(np.int32), l.view(np.int32)), want)


def test_floats_as_integers(shim: Shim) -> None:
    x = np.concatenate([RANDOM.normal(0, s, 400) for s in (1, 100, 1e8)])
    x = np.concatenate([x, np.arange(-40, 40) / 2]).astype(np.float32)
    x = x[: x.size // 16 * 16]
    np.testing.assert_array_equal(called(shim, "whole", x), np.trunc(x))
    np.testing.assert_array_equal(called(shim, "nearest", x), np.rint(x))
    special = np.resize(
        np.array([np.nan, np.inf, -np.inf, 2.0**31, -(2.0**31), 3e9, -3e9, 2147483520.0], np.float32), 16
    )
    most, least = 2**31 - 1, -(2**31)
    want = np.resize([0, most, least, most, least, most, least, 2147483520], 16)
    np.testing.assert_array_equal(called(shim, "to_int", special), want)
    np.testing.assert_array_equal(called(shim, "to_int", x), np.trunc(x))
    nothing = np.full(16, np.nan, np.float32)
    assert not (called(shim, "whole", nothing) & 0xFFFF).any() and not (called(shim, "nearest", nothing) & 0xFFFF).any()


@pytest.mark.parametrize("name", TYPES)
def test_narrow_elements_in_memory(shim: Shim, name: str, edge: np.ndarray) -> None:
    """Loads and stores of n elements touch those n alone, up to a page that may not be touched."""
    kind = np.dtype(TYPES[name])
    page = edge.view(kind)
    for n in range(shim.lanes + 1):
        x = RANDOM.integers(0, 2 if name == "bool" else 256**kind.itemsize, shim.lanes).astype(f"u{kind.itemsize}")
        if name == "f16":
            x = RANDOM.standard_normal(shim.lanes).astype(np.float16).view(np.uint16)
        if name == "bf16":
            x = RANDOM.standard_normal(shim.lanes).astype(ml_dtypes.bfloat16).view(np.uint16)
        x = x.view(kind)
        page[page.size - n :] = x[:n]
        y = np.zeros(shim.lanes + 1, kind)
        shim.call(f"copy_{name}", ctypes.c_void_p(page.ctypes.data + (page.size - n) * kind.itemsize), y, n)
        assert (y[:n] == x[:n]).all() and not y[n:].any()
        shim.call(f"copy_{name}", x, ctypes.c_void_p(page.ctypes.data + (page.size - n) * kind.itemsize), n)
        assert (page[page.size - n :] == x[:n]).all()
        spread, far = np.zeros(3 * shim.lanes, kind), np.zeros(3 * shim.lanes, kind)
        spread[::3] = x
        shim.call(f"stride_{name}", spread, ctypes.c_ssize_t(3), far, n)
        assert (far[: 3 * n : 3] == x[:n]).all() and np.count_nonzero(far) <= n


@pytest.mark.parametrize("name", ["u8", "i8", "u16", "i16", "bool", "f16", "bf16"])
def test_what_lanes_hold(shim: Shim, name: str) -> None:
    kinds = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
    kind = np.dtype(kinds.get(name, TYPES[name]))
    bits = np.arange(256**kind.itemsize, dtype=np.uint32).astype(f"u{kind.itemsize}").view(kind)
    for k in range(0, bits.size, shim.lanes * (257 if kind.itemsize == 2 else 1)):
        x = bits[k : k + shim.lanes]
        if x.size < shim.lanes:
            break
        if name in kinds:
            got = shim.vector(f"lanes_{name}", x.view(np.uint16))
            np.testing.assert_array_equal(got, x.astype(np.float32))
        else:
            y = np.zeros(shim.lanes, np.int32)
            shim.call(f"lanes_{name}", x, y)
            np.testing.assert_array_equal(y, -(x != 0).astype(np.int32) if name == "bool" else x)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_rounding_to_half_precision(shim: Shim, name: str) -> None:
    kind = np.float16 if name == "f16" else ml_dtypes.bfloat16
    scales = np.exp2(RANDOM.uniform(-30, 18, 20000))
    ties = (np.arange(4096) / 4096 + 1) * 2.0 ** RANDOM.integers(-26, 15, 4096)
    edges = [0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519, 65520, 1e38, 6e-8, 3e-8, 2.9e-8, -65520, 1e-45]
    x = np.concatenate([RANDOM.standard_normal(20000) * scales, ties, edges]).astype(np.float32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(shim.map(f"as_{name}", x), x.astype(kind).astype(np.float32))


def test_words(shim: Shim) -> None:
    p = np.array([1, 200, 3, 255], np.uint8)
    whole, parts, last = (np.zeros(shim.lanes, np.int32) for _ in range(3))
    shim.call("words", p, whole, parts, last)
    assert (whole == p.view(np.int32)[0]).all() and (parts == whole).all()
    assert (last == 200 + (3 << 8) + (255 << 16)).all()
