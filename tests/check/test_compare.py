"""Differences between results."""

from __future__ import annotations

from math import inf, nan
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from small_graphs import value

from edgec.check.compare import TOLERANCES, compare, compare_all, quantized_outputs, tolerance_of, worst
from edgec.check.network import _usual_tolerance
from edgec.device.device import Precision
from edgec.ir.graph import Graph, Node, constant, placeholder
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


@pytest.mark.parametrize(
    ("got", "want", "max_abs", "mismatches"),
    [
        (np.array([2**60 + 1, 5, 6]), np.array([2**60, 5, 7]), 1, 2),  # as floats, the first two are one number
        (np.array([2**63 - 1]), np.array([-(2**63)]), 2**64 - 1, 1),
        (np.array([0, 3], np.uint8), np.array([255, 3], np.uint8), 255, 1),
        (np.array([True, False]), np.array([False, False]), 1, 1),
        (np.array([-8, 7], ml_dtypes.int4), np.array([-8, 6], ml_dtypes.int4), 1, 1),
    ],
)
def test_integers_are_counted_and_must_be_equal(
    got: np.ndarray, want: np.ndarray, max_abs: float, mismatches: int
) -> None:
    found = compare("y", got, want)
    assert (found.max_abs, found.mismatches, found.elements) == (max_abs, mismatches, want.size)
    assert not found.within(1.0) and found.within(0.0, mismatch_tolerance=mismatches / want.size)
    assert compare("y", want, want).within(0.0)
    assert compare("y", f32(1), f32(2)).mismatches is None


def test_what_is_rounded_into_its_whole_type_may_be_one_step_off() -> None:
    """QuantizeLinear, moved; but no mask of 0 and 1, and no label that happens to be a byte."""
    x = placeholder("x", Type("f32", (2, 4)))

    def rounded(low: float, high: float) -> Node:
        y = node(
            "min",
            node("max", node("add", node("round", x), constant(np.float32(7))), constant(np.float32(low))),
            constant(np.float32(high)),
        )
        return node("transpose", node("cast", y, to="u8"), perm=(1, 0))

    def clamped_first(low: float) -> Node:
        y = node("round", node("max", x, constant(np.float32(low))))
        return node("cast", node("min", y, constant(np.float32(255))), to="u8")

    labels = node("cast", node("reduce", x, axes=(1,), combine="max"), to="u8")
    outputs = {"q": rounded(0.0, 255.0), "mask": rounded(0.0, 1.0), "labels": labels}
    outputs |= {"r": clamped_first(0.0), "part": clamped_first(3.0)}
    assert quantized_outputs(Graph((x,), tuple(outputs.items()))) == {"q": 1.0, "r": 1.0}


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


@pytest.mark.parametrize(("layers", "expected"), [(None, "fp32"), (frozenset(), "fp32"), (frozenset({"a"}), "bf16")])
def test_layers_in_bf16_are_held_to_its_tolerance(layers: frozenset[str] | None, expected: Precision) -> None:
    """Of a mixed network, whose device has fp32 as its precision."""
    x = value("x", 2)
    stages = SimpleNamespace(
        graph=Graph((x,), (("y", node("exp", x)),)), compressed=SimpleNamespace(bf16_layers=layers)
    )
    options = SimpleNamespace(device=SimpleNamespace(precision="fp32"))
    assert _usual_tolerance(SimpleNamespace(stages=stages, options=options)) == TOLERANCES[expected]  # type: ignore
