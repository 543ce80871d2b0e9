"""The band of the difference of two maxima: no drawn value leaves it, and it is as narrow as what is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from chance import RANDOM

from edgec.certify import bends_apart
from edgec.certify.bends_apart import Band, band

#: Bands, and values drawn in each.
BANDS, DRAWN = 2000, 60


def _drawn(kind: str) -> tuple[Band, np.ndarray, np.ndarray]:
    """Bands of drawn ranges, many of which begin or end at zero, and differences [drawn, bands] with their values."""
    ends = RANDOM.normal(size=(4, BANDS)) * 10.0 ** RANDOM.integers(-2, 3, (4, BANDS))
    ends *= RANDOM.random((4, BANDS)) > 0.1
    (low, high), (least, most) = (np.sort(pair, axis=0) for pair in (ends[:2], ends[2:]))
    found = band(kind, low, high, least, most)
    part = RANDOM.random((2, DRAWN, BANDS))
    part = np.where(RANDOM.random(part.shape) < 0.3, np.rint(part), part)
    e, v = low + part[0] * (high - low), least + part[1] * (most - least)
    of = np.maximum if kind == "max" else np.minimum
    return found, e, of(v + e, 0) - of(v, 0)


def _left(kind: str) -> int:
    found, e, d = _drawn(kind)
    inside = (d >= found.bottom * e + found.bottom_0) & (d <= found.top * e + found.top_0)
    return int((~(inside & (d >= found.low) & (d <= found.high))).sum())


@pytest.mark.parametrize("kind", ["max", "min"])
def test_no_value_leaves_the_band(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _left(kind) == 0
    line = bends_apart._line
    monkeypatch.setattr(bends_apart, "_line", lambda places, values: line(places[:2], values[:2]))
    assert _left(kind) > 100, "lines through the ends alone are crossed between them"


def test_what_is_known_of_the_operand_is_used() -> None:
    """Far above zero the difference is e, far below nothing; beside it, no more than the operand leaves."""
    e, one = np.array([2.0]), np.ones(1)
    above, below = band("max", -e, e, 3 * one, 4 * one), band("max", -e, e, -4 * one, -3 * one)
    assert above.top == above.bottom == 1 and abs(above.top_0 - above.bottom_0) < 1e-13
    assert below.top == below.bottom == 0 and abs(below.high - below.low) < 1e-13
    near = band("max", -e, e, one, one)  # never below -1, which is where v + e is 0
    assert abs(near.low + 1) < 1e-13 and abs(near.high - 2) < 1e-13
