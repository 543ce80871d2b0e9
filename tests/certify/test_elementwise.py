"""Rounding of scalar functions is within their range: the units in the last place of each are counted twice."""

from __future__ import annotations

import numpy as np
import pytest
from small_graphs import value

from edgec.certify.curves import scalar
from edgec.certify.elementwise import Place, _of_scalar
from edgec.certify.ranges import UNITS, Range
from edgec.ir.functions import FUNCTIONS
from edgec.ops import node

CURVED = sorted(
    n for n, f in FUNCTIONS.items() if f.curve is not None and f.curve.steps is None and scalar(n) is not None
)


@pytest.mark.parametrize("name", CURVED)
def test_errors_of_functions_cover_their_ulps(name: str) -> None:
    """Of an operand without error: nothing for what is exact, and at least its ulps of the largest value for others."""
    low, high = np.array([0.25]), np.array([0.75])
    place = Place(node(name, value("x", 1)))
    found = _of_scalar(place, [Range(low, high, np.zeros(1))])
    curve = FUNCTIONS[name].curve
    assert curve is not None
    inside = np.array([FUNCTIONS[name].numpy(np.float64(t)) for t in np.linspace(0.25, 0.75, 33)])
    assert found.low[0] - found.error[0] <= inside.min() and inside.max() <= found.high[0] + found.error[0]
    least = curve.ulp * UNITS["f32"] * np.abs(inside).max() if curve.ulp else 0.0
    assert found.error[0] >= least and (curve.ulp or not found.error[0])
    carried = _of_scalar(place, [Range(low, high, np.full(1, 1e-3))])
    assert carried.error[0] >= found.error[0]
