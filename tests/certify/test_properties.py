"""Properties as numbers: boxes around inputs, clauses against other classes, and the first that outputs meet."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest

from edgec.certify.properties import around, first_met, no_other_class, read_number
from edgec.errors import UsageError
from edgec.ir.types import Type


@pytest.mark.parametrize("shape", [(1, 4), (4,), (1, 2, 2), (1, 1)])
def test_no_other_class(shape: tuple[int, ...]) -> None:
    """One clause for every other class, met by outputs in which that is as great, or greater."""
    count = int(np.prod(shape))
    for label in range(count):
        clauses = no_other_class("y", Type("f32", shape), label)
        assert len(clauses) == count - 1
        outputs = np.zeros(shape, np.float32)
        outputs.flat[label] = 2
        assert first_met(clauses, {"y": outputs}) is None
        others = [k for k in range(count) if k != label]
        for number, k in enumerate(others):
            for value in (2.0, 3.0):
                near = outputs.copy()
                near.flat[k] = value
                assert first_met(clauses, {"y": near}) == number
            near.flat[k] = 1.99
            assert first_met(clauses, {"y": near}) is None


def test_outputs_that_are_no_numbers_meet_a_clause() -> None:
    clauses = no_other_class("y", Type("f32", (3,)), 0)
    for y in ((nan, 0, 0), (9, nan, 0), (9, 0, nan)):
        assert first_met(clauses, {"y": np.array(y, np.float32)}) == 0
        assert first_met((), {"y": np.array(y, np.float32)}) is None


TYPES = {"x": Type("f32", (3,))}


def test_boxes_of_floats() -> None:
    """They hold all that is at most as far away, one float more at either end; a distance of 0 is the point itself."""
    x = np.array([0.0, 1.0, -3.0])
    case = around({"x": x}, TYPES, 0.25)
    assert (case.low["x"] < x - 0.25).all() and (case.high["x"] > x + 0.25).all()
    assert np.allclose(case.low["x"], x - 0.25, rtol=1e-15) and np.allclose(case.high["x"], x + 0.25, rtol=1e-15)
    point = around({"x": x}, TYPES, 0.0)
    assert np.array_equal(point.low["x"], x) and np.array_equal(point.high["x"], x)
    assert case.radius is None and case.center is None
    ball = around({"x": x}, TYPES, 0.25, norm="2")
    assert ball.radius is not None and 0.25 <= ball.radius <= 0.25 * (1 + 1e-12) and np.array_equal(ball.center["x"], x)


@pytest.mark.parametrize(("dtype", "least", "most"), [("i8", -128, 127), ("u8", 0, 255), ("i32", -(2**31), 2**31 - 1)])
def test_boxes_of_integers(dtype: str, least: int, most: int) -> None:
    """Whole numbers within the distance and the type."""
    for x, eps, low, high in ((5, 2.5, 3, 7), (5, 2.0, 3, 7), (5, 0.5, 5, 5), (least, 3.0, least, least + 3),
                              (most, 1.5, most - 1, most)):  # fmt: skip
        case = around({"x": np.array([x] * 3)}, {"x": Type(dtype, (3,))}, eps)
        assert set(case.low["x"]) == {low} and set(case.high["x"]) == {high}


def test_boxes_within_limits() -> None:
    case = around({"x": np.array([0.0, 0.5, 1.0])}, TYPES, 0.3, within=(0.0, 1.0))
    assert case.low["x"][0] == 0 and case.high["x"][2] == 1 and case.high["x"][0] > 0.3
    edge = around({"x": np.array([-0.3, 0.5, 1.0])}, TYPES, 0.3, within=(0.0, 1.0))
    assert edge.low["x"][0] == 0 <= edge.high["x"][0] < 1e-15
    for wrong in (-0.4, 1.4):
        with pytest.raises(UsageError, match="is not within"):
            around({"x": np.array([wrong, 0.5, 0.5])}, TYPES, 0.3, within=(0.0, 1.0))
    for wrong in (nan, inf):
        with pytest.raises(UsageError, match="not finite"):
            around({"x": np.array([wrong, 0.5, 0.5])}, TYPES, 0.3)


def test_distances_as_text() -> None:
    for text, value in (("0", 0.0), ("0.01", 0.01), ("2/255", float(Fraction(2, 255))), ("1e-3", 1e-3)):
        assert read_number(text, "--eps") == value
    for text in ("-1", "-1/2", "nan", "inf", "1/0", "x", "", "1e999"):
        with pytest.raises(UsageError):
            read_number(text, "--eps")
