"""What counts as a difference."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from edgec.check.compare import TOLERANCES, compare, compare_all, tolerance_of, worst
from edgec.ir.graph import Graph, placeholder
from edgec.ir.types import Type
from edgec.ops import node


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("got", "want", "max_abs", "max_rel"),
    [
        (f32(1, 2), f32(1, 2), 0, 0),
        (f32(1, 3), f32(1, 4), 1, 0.25),
        (f32(nan, 2), f32(nan, 2), 0, 0),
        (f32(inf, 2), f32(inf, 2), 0, 0),
        (f32(-inf, 2), f32(inf, 2), inf, inf),
        (f32(nan, 2), f32(1, 2), inf, inf),
        (f32(1, 2), f32(nan, 2), inf, inf),
        (f32(nan), f32(nan), 0, 0),
        (f32(0.5), f32(0), 0.5, 0.5),
        (f32(), f32(), 0, 0),
        (np.array([True, False]), np.array([True, True]), 1, 1),
        (np.array([2**40 + 1]), np.array([2**40 + 1]), 0, 0),
    ],
)
def test_distance(got: np.ndarray, want: np.ndarray, max_abs: float, max_rel: float) -> None:
    found = compare("y", got, want)
    assert (found.max_abs, found.max_rel) == (max_abs, max_rel)


def test_the_note_says_what_is_strange() -> None:
    assert compare("y", f32(1, nan, nan), f32(1, 2, 3)).note == "2 of 3 elements, first nan instead of 2.0"
    assert "shape" in compare("y", f32(1), f32(1, 2)).note
    assert "float64" in compare("y", np.zeros(1), f32(0)).note


def test_a_missing_output_is_infinitely_far() -> None:
    found = worst(compare_all({"a": f32(1)}, {"a": f32(1), "b": f32(1)}))
    assert (found.name, found.max_rel, found.note) == ("b", inf, "missing")


@pytest.mark.parametrize(("dtype", "tolerance"), [("f32", "fp32"), ("f16", "fp16"), ("bf16", "bf16")])
def test_a_model_of_halves_is_held_to_what_halves_can_say(dtype: str, tolerance: str) -> None:
    """Inside alone: what it takes and gives are floats."""
    x = placeholder("x", Type("f32", (4,)))
    y = node("cast", node("sin", node("cast", x, to=dtype)), to="f32")
    assert tolerance_of(Graph((x,), (("y", y),)), "fp32") == TOLERANCES[tolerance]
    assert tolerance_of(Graph((x,), (("y", y),)), "bf16") == TOLERANCES["bf16"]
