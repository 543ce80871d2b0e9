"""The reader of properties: what it reads, and what it refuses in words."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgec.certify import vnnlib
from edgec.errors import UsageError
from edgec.ir.types import Type

INPUTS, OUTPUTS = {"x": Type("f32", (1, 2))}, {"y": Type("f32", (3,))}
DECLARED = "\n".join(f"(declare-const {v} Real)" for v in ("X_0", "X_1", "Y_0", "Y_1", "Y_2"))
BOX = "(assert (>= X_0 -1)) (assert (<= X_0 1)) (assert (<= X_1 0.5)) (assert (>= X_1 0.25)) ; a comment (\n"


def read(text: str, box: str = BOX) -> tuple[vnnlib.Case, ...]:
    return vnnlib.cases(f"{DECLARED}\n{box}{text}", INPUTS, OUTPUTS)


def test_boxes_and_conditions() -> None:
    (case,) = read("(assert (<= Y_1 Y_0)) (assert (>= (+ Y_0 (* 2 Y_2)) 3.5))")
    assert case.low["x"].tolist() == [[-1, 0.25]] and case.high["x"].tolist() == [[1, 0.5]]
    (clause,) = case.clauses
    assert clause.weights["y"].tolist() == [[-1, 1, 0], [-1, 0, -2]] and clause.limits.tolist() == [0, -3.5]
    assert clause.excess({"y": np.array([2, 1, 1], np.float32)}) <= 0
    assert clause.excess({"y": np.array([2, 2.5, 1], np.float32)}) == 0.5


def test_alternatives_share_a_box() -> None:
    (case,) = read("(assert (or (and (<= Y_0 0)) (and (<= Y_1 0) (<= Y_2 1))))")
    assert [len(c.limits) for c in case.clauses] == [1, 2]


def test_alternative_boxes_are_cases() -> None:
    boxes = (
        "(assert (or (and (<= X_0 1) (>= X_0 0)) (and (<= X_0 3) (>= X_0 2)))) (assert (<= X_1 1)) (assert (>= X_1 1))"
    )
    found = read("(assert (<= Y_0 0))", boxes)
    assert [c.low["x"][0, 0] for c in found] == [0, 2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(assert (<= Y_0 0)", "not closed"),
        (")", "not opened"),
        ("(assert (< Y_0 0))", "'<' is no condition"),
        ("(assert (<= Y_0 nan))", "neither a number nor a variable"),
        ("(assert (<= Y_0 (* Y_1 Y_2)))", "no sum of multiples"),
        ("(assert (<= (+ X_0 Y_0) 0))", "on inputs and outputs"),
        ("(assert (<= (+ X_0 X_1) 0))", "several inputs"),
        ("(assert (<= Y_3 0))", "'Y_3' is not declared"),
        ("(declare-const Z Real)", "a variable 'Z'"),
        ("(define-fun f () Real 1)", "is not read"),
        ("Y_0", "outside of all parentheses"),
        ("(" * 100 + ")" * 100, "deep"),
        ("(assert " + "(and " * 20 + ")" * 21, "no condition"),
        ("".join(f"(assert (or (<= Y_0 {k}) (<= Y_1 {k})))" for k in range(20)), "alternatives"),
        ("(assert (<= X_0 0))", "no condition on outputs"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read(text)


def test_properties_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="X_0 has no bounds"):
        read("(assert (<= Y_0 0))", "(assert (<= X_0 1))")
    with pytest.raises(UsageError, match="about 3 outputs, and the network has 2"):
        vnnlib.cases(f"{DECLARED}{BOX}(assert (<= Y_0 0))", INPUTS, {"y": Type("f32", (2,))})
    with pytest.raises(UsageError, match="cannot be read"):
        vnnlib.read(Path("no such file"), INPUTS, OUTPUTS)


@given(st.text("()XY_01<=>andorsetc -;.\n", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(UsageError):
        read(text)
