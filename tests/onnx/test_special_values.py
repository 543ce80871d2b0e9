"""Special values through operators beside onnxruntime: a sample of docs/results/special-values.md."""

from __future__ import annotations

import numpy as np
import pytest
from chance import RANDOM

from benchmarks.robustness import special
from benchmarks.robustness.special_reasons import reason

#: Of these always some cases, and of so many other operators.
ALWAYS = ("ArgMax", "Clip", "MaxPool", "Gather", "ScatterND", "Conv", "Pow", "Trilu")
OTHERS, CASES = 12, 2


def test_differences_are_those_of_the_page() -> None:
    known = special.operators()
    others = [str(o) for o in RANDOM.permutation(sorted(known))[:OTHERS]]
    chosen = [(o, str(n)) for o in {*ALWAYS, *others} for n in RANDOM.permutation(known[o])[:CASES]]
    rows = list(special.rows_of(chosen))
    text = special.PAGE.read_text()
    assert len({r.operator for r in rows}) > len(ALWAYS)
    for row in rows:
        if row.wrong:
            assert reason(row.operator, row.wrong) is not None, row
        assert row.operator in text


@pytest.mark.parametrize(
    ("got", "want", "word"),
    [
        ([1, np.nan], [1, np.nan], ""),
        ([1, 2], [1, np.nan], "NaN"),
        ([np.inf, 1], [-np.inf, 1], "infinity"),
        ([np.inf, 1], [3e38, 1], "infinity"),
        ([-0.0, 1], [0.0, 1], "sign of 0"),
        ([1, 1.001], [1, 1], "value"),
        ([1, 1.00001], [1, 1], ""),
    ],
)
def test_what_counts_as_a_difference(got: list[float], want: list[float], word: str) -> None:
    assert special.difference(np.float32(got), np.float32(want))[0] == word
    assert special.difference(np.int32([1]), np.int32([2]))[0] == "integer"


def test_a_page_has_a_reason_for_everything() -> None:
    with pytest.raises(SystemExit, match="without a reason"):
        special.page([special.Row("Relu", "x", "NaN", "NaN", "1 for nan")])
