"""Requantization beside exact rational arithmetic: rounding, saturation, zero points, and scales down to 1e-12."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edgec
from edgec import ops
from edgec.compress.calibration import narrowed
from edgec.compress.observe import scale_and_zero
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import Type
from edgec.rewrite import simplify

ROWS, TERMS, COLUMNS = 3, 9, 6
RANGES = {"u8": (0, 255), "i8": (-128, 127)}


def network(dtype: str, weights: np.ndarray, numbers: dict[str, np.ndarray]) -> Graph:
    """quantize(dequantize(x) @ dequantize(w) + b): x and results bytes of ``dtype``, weights with a scale a column."""
    x = placeholder("x", Type(dtype, (ROWS, TERMS)))

    def number(name: str) -> Node:
        return constant(numbers[name].astype(np.float32))

    real = ops.node("mul", ops.node("sub", ops.node("cast", x, to="f32"), number("zx")), number("sx"))
    w = ops.node("mul", ops.node("cast", constant(weights.astype(np.int8)), to="f32"), number("sw"))
    y = ops.node("matmul", real, w)
    y = ops.node("add", ops.node("round", ops.node("div", y, number("sy"))), number("zy"))
    low, high = (constant(np.array(v, np.float32)) for v in RANGES[dtype])
    return Graph((x,), (("y", ops.node("cast", ops.node("min", ops.node("max", y, low), high), to=dtype)),))


def exact(dtype: str, x: np.ndarray, weights: np.ndarray, numbers: dict[str, np.ndarray]) -> list[list[Fraction]]:
    """Exact value before rounding, zero point included, in rational arithmetic."""
    ratio = [Fraction(float(np.float32(s))) for s in numbers["sw"].reshape(-1)]
    sx, sy = (Fraction(float(np.float32(numbers[k]))) for k in ("sx", "sy"))
    zx, zy = int(numbers["zx"]), int(numbers["zy"])
    sums = (x.astype(np.int64) - zx) @ weights.astype(np.int64)
    return [[int(total) * sx * s / sy + zy for total, s in zip(row, ratio)] for row in sums]


@st.composite
def problems(draw: st.DrawFn) -> tuple[str, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    dtype = draw(st.sampled_from(["u8", "i8"]))
    low, high = RANGES[dtype]
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    ends = draw(st.booleans())  # only the ends of the ranges: what saturates, and the largest sums
    x = random.choice([low, high], (ROWS, TERMS)) if ends else random.integers(low, high + 1, (ROWS, TERMS))
    w = random.choice([-127, 127], (TERMS, COLUMNS)) if ends else random.integers(-127, 128, (TERMS, COLUMNS))
    exponents = draw(st.lists(st.integers(-12, 0), min_size=COLUMNS, max_size=COLUMNS))
    numbers = {
        "sx": np.array(draw(st.floats(1e-4, 1.0))),
        "sw": np.array([10.0**e * random.uniform(1, 9) for e in exponents]),
        "sy": np.array(10.0 ** max(exponents) * draw(st.floats(0.01, 50.0))),
        "zx": np.array(draw(st.sampled_from([low, low + 1, 0, high]))),
        "zy": np.array(draw(st.sampled_from([low, 0, 7, high]))),
    }
    return dtype, x.astype(np.uint8 if dtype == "u8" else np.int8), w, numbers


def right(found: np.ndarray, wanted: list[list[Fraction]], dtype: str) -> bool:
    """Is every result the nearest integer, saturated? Within 1e-5 of the middle between two, either is."""
    low, high = RANGES[dtype]
    for value, exactly in zip(found.reshape(-1).tolist(), [v for row in wanted for v in row]):
        slack = Fraction(1, 100_000) + abs(exactly) * Fraction(1, 2**21)
        if not abs(min(max(exactly, low), high) - value) <= Fraction(1, 2) + slack:
            return False
    return True


@settings(max_examples=60, deadline=None)
@given(problems())
def test_laws_requantize_as_rational_arithmetic_does(
    problem: tuple[str, np.ndarray, np.ndarray, dict[str, np.ndarray]],
) -> None:
    dtype, x, w, numbers = problem
    graph = network(dtype, w, numbers)
    wanted = exact(dtype, x, w, numbers)
    for form in (graph, simplify(graph)[0]):
        assert right(run(form, {"x": x})["y"], wanted, dtype)


@pytest.mark.parametrize("dtype", ["u8", "i8"])
def test_kernels_requantize_as_rational_arithmetic_does(dtype: str, tmp_path: Path) -> None:
    """One build: columns with scales from 1 down to 1e-12, those that saturate at either end among them."""
    random = np.random.default_rng(1)
    low, high = RANGES[dtype]
    w = random.integers(-127, 128, (TERMS, COLUMNS))
    w[:, :2] = 127, -127
    numbers = {
        "sx": np.array(0.02), "sw": np.array([1.0, 1.0, 1e-2, 3e-6, 1e-9, 1e-12]), "sy": np.array(0.05),
        "zx": np.array(low + 3), "zy": np.array(low + 100),
    }  # fmt: skip
    built = edgec.build(network(dtype, w, numbers), tmp_path / dtype, start="simplify", name="net")
    for k in range(20):
        x = random.integers(low, high + 1, (ROWS, TERMS)) if k else np.full((ROWS, TERMS), high)
        x = x.astype(np.uint8 if dtype == "u8" else np.int8)
        assert right(np.asarray(built(x)), exact(dtype, x, w, numbers), dtype)


@settings(max_examples=200, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.integers(0, 2**32 - 1))
def test_a_range_is_kept_within_half_a_step(low: float, high: float, seed: int) -> None:
    low, high = min(low, high), max(low, high)
    scale, zero = scale_and_zero(low, high)
    values = np.random.default_rng(seed).uniform(low, high, 64).astype(np.float32)
    found = narrowed(values, scale, zero)
    assert 0 <= zero <= 255 and narrowed(np.zeros(1, np.float32), scale, zero)[0] == 0
    # Half a step for the rounding, half for the ends, which the rounding of the zero point moves.
    assert np.abs(found.astype(np.float64) - values).max() <= 1.001 * scale
