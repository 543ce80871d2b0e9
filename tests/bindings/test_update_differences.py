"""Differences of generated code in words: numbers that became others, or the first line that is another."""

from __future__ import annotations

from edgec.artifact.update import _of_file


def test_numbers_and_lines() -> None:
    old = ["a = 1 + x[20];", "b = 3;"]
    assert list(_of_file("n.c", old, list(old), "")) == []
    assert list(_of_file("n.c", old, ["a = 1 + x[21];", "b = 4;"], "")) == [
        "20 became 21 in the code of n.c", "3 became 4 in the code of n.c",
    ]  # fmt: skip
    (said,) = _of_file("n.c", old, ["a = 1 + x[20];", "c = 3;"], "")
    assert said == "the code of n.c is another, from `c = 3;` on"
    (said,) = _of_file("n.c", old, old[:1], "")
    assert said == "the code of n.c is another, from `its end` on"
    (said,) = _of_file("n.c", old[:1], old, "")
    assert said == "the code of n.c is another, from `b = 3;` on"
