"""Integer comparisons that their operands decide: exactly those that hold, or fail, for every value of the type."""

from __future__ import annotations

from operator import eq, ge, gt, le, lt, ne

import pytest

from edgec.ir import expr as X
from edgec.ir.comparison import OF_EQUALS, decided
from edgec.ir.dtypes import bits, ends

COMPARED = {"eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge}


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("dtype", ["i8", "u8", "bool"])
def test_with_a_number(dtype: str, is_first: bool) -> None:
    low, high = (0, 1) if dtype == "bool" else map(int, ends(dtype))
    numbers, x = range(low, high + 1), X.load("x", (X.const(0),), dtype)
    for name, compare in COMPARED.items():
        for number in {low, low + 1, 0, 1, high - 1, high} & set(numbers):
            results = {compare(number, n) if is_first else compare(n, number) for n in numbers}
            operands = (X.const(number, dtype), x) if is_first else (x, X.const(number, dtype))
            want = results.pop() if len(results) == 1 else None
            assert decided(name, *operands) == want, (name, number)


@pytest.mark.parametrize("dtype", ["i16", "u16", "i32", "u32", "i64", "u64"])
def test_with_the_ends_of_a_type(dtype: str) -> None:
    """Nothing is below the least number, and none above the greatest; their neighbors decide nothing."""
    x, size = X.load("x", (X.const(0),), dtype), 2 ** bits(dtype)
    least, greatest = (-size // 2, size // 2 - 1) if dtype[0] == "i" else (0, size - 1)
    known = {("lt", least): False, ("ge", least): True, ("gt", greatest): False, ("le", greatest): True}
    for name in COMPARED:
        for number in (least, least + 1, greatest - 1, greatest):
            assert decided(name, x, X.const(number, dtype)) == known.get((name, number)), (name, number)


def test_with_itself_or_another() -> None:
    x, y = (X.load(name, (X.const(0),), "i32") for name in "xy")
    for name, compare in COMPARED.items():
        assert decided(name, x, x) == OF_EQUALS[name] == compare(1, 1)
        assert decided(name, x, y) is None
        for dtype in ("f16", "bf16", "f32", "f64"):
            f = X.load("f", (X.const(0),), dtype)
            assert decided(name, f, f) is None and decided(name, f, X.const(0.0, dtype)) is None  # not of NaN
