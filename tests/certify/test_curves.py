"""Scalar functions: ranges, slopes and lines, against dense and exhaustive values."""

from __future__ import annotations

import numpy as np
import pytest
from chance import RANDOM

from edgec.certify import curves
from edgec.certify.curves import RECIPROCAL, SQUARE, Scalar, scalar
from edgec.ir.functions import FUNCTIONS

CURVED = [name for name, f in FUNCTIONS.items() if f.curve is not None and f.curve.pieces]
SCALARS: dict[str, Scalar] = {name: found for name in CURVED if (found := scalar(name)) is not None}
SCALARS |= {"reciprocal": RECIPROCAL, "square": SQUARE}
#: All finite numbers of 16 bits.
_CODES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
HALVES = np.sort(_CODES[np.isfinite(_CODES)]).astype(np.float64)


def intervals(f: Scalar, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Ends of intervals of any width, near the turn and far from it, inside of where the function is defined."""
    center = RANDOM.standard_normal(count) * 10.0 ** RANDOM.uniform(-3, 1, count)
    width = 10.0 ** RANDOM.uniform(-6, 1.3, count)
    low, high = center - width * RANDOM.uniform(0, 1, count), center + width * RANDOM.uniform(0, 1, count)
    if f.curve.start > -np.inf:
        low = np.abs(low) + f.curve.start + 1e-6
        high = low + width
    return low, high


def between(f: Scalar, low: np.ndarray, high: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lines of intervals at ``x``, and how much computing them here may lose."""
    lines = f.lines(low, high)
    parts = lines.slope_low * x, lines.offset_low, lines.slope_high * x, lines.offset_high
    return parts[0] + parts[1], parts[2] + parts[3], 4e-16 * sum(map(np.abs, parts), np.zeros(()))


def faults(f: Scalar, count: int = 400) -> int:
    """Elements that leave the range or the lines of their interval, of ``count`` intervals with 500 points each."""
    low, high = intervals(f, count)
    x = low + (high - low) * np.concatenate([[0, 1], RANDOM.uniform(0, 1, 498)])[:, None]
    x = np.clip(x, low, high)
    with np.errstate(all="ignore"):
        y = f.value(x)
        least, most = f.range(low, high)
        below, above, rounding = between(f, low, high, x)
    known = np.isfinite(most) & np.isfinite(least)
    out = (y < least) | (y > most) | (below > y + rounding) | (above < y - rounding)
    return int((out & known).sum())


@pytest.mark.parametrize("name", SCALARS)
def test_no_value_leaves_its_range_or_its_lines(name: str) -> None:
    assert faults(SCALARS[name], 2000) == 0


@pytest.mark.parametrize("name", SCALARS)
def test_every_half_float_is_between_the_lines(name: str) -> None:
    f = SCALARS[name]
    for low, high in zip(*intervals(f, 40)):
        inside = HALVES[(low <= HALVES) & (high >= HALVES)]
        with np.errstate(all="ignore"):
            below, above, slack = between(f, np.array([low]), np.array([high]), inside)
            y = f.value(inside)
        assert (below <= y + slack).all() and (above >= y - slack).all()


@pytest.mark.parametrize("name", SCALARS)
def test_no_secant_is_steeper_than_the_steepest_slope(name: str) -> None:
    f = SCALARS[name]
    low, high = intervals(f, 500)
    x = np.sort(low + (high - low) * RANDOM.uniform(0, 1, (50, 500)), axis=0)
    with np.errstate(all="ignore"):
        y, steepest = f.value(x), f.steepest(low, high)
        rise = np.abs(np.diff(y, axis=0)) - 1e-14 * np.abs(y[1:])
        assert (rise <= steepest * np.diff(x, axis=0) * (1 + 1e-9) + 1e-300)[:, np.isfinite(steepest)].all()


@pytest.mark.parametrize("name", ["sigmoid", "exp", "sqrt", "tanh"])
def test_bounds_that_are_wrong_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted mistakes: secant and tangent the wrong way round, a turn forgotten, a line that touches too early."""
    f, curve = SCALARS[name], SCALARS[name].curve
    swapped = "".join({"v": "n", "n": "v"}[letter] for letter in curve.pieces)
    wrong = [curves.Curve(swapped, curve.turns, start=curve.start)]
    if curve.turns:
        wrong += [curves.Curve("v"), curves.Curve(curve.pieces, (0.5,))]
    for w in wrong:
        assert faults(Scalar(f.value, f.slope, w)) > 0
    if curve.turns:
        monkeypatch.setattr(curves, "_HALVINGS", 1)
        monkeypatch.setattr(Scalar, "_touching", lambda self, low, high, *rest, **more: self._secant(low, high))
        assert faults(f) > 0


def test_lines_are_as_tight_as_they_may_be() -> None:
    """Of a convex function the secant meets both ends; of one that turns, the lines touch it."""
    f = SCALARS["exp"]
    lines = f.lines(np.array([-1.0]), np.array([2.0]))
    for x in (-1.0, 2.0):
        assert abs(lines.slope_high * x + lines.offset_high - np.exp(x)) < 1e-10
    assert abs(lines.slope_low * 0.5 + lines.offset_low - np.exp(0.5)) < 1e-10
    f = SCALARS["tanh"]
    lines = f.lines(np.array([-2.0]), np.array([3.0]))
    x = np.linspace(-2, 3, 100_001)
    for slope, offset in ((lines.slope_low, lines.offset_low), (lines.slope_high, lines.offset_high)):
        assert np.abs(slope * x + offset - np.tanh(x)).min() < 1e-9
