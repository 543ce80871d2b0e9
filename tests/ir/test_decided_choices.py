"""Expressions that depend on sizes, on data and on positions, one kind at a time and together."""

from __future__ import annotations

from itertools import product

from edgec.ir import expr as X
from edgec.ir.vector import _decided_by, _has_sizes, loads_beyond_choice, parts_beyond_choice


def test_sizes_wherever_they_are() -> None:
    """Constants and loops of fixed extent have none; sizes, loops up to them and what is loaded by name have."""
    n = X.size("n", 1, 9)
    fixed, open_ = X.var("i", 4), X.var("j", n)
    without = [X.const(1), fixed, X.load(0, (fixed,), "f32"), fixed * 3 + 1]
    having = [n, open_, X.load("name", (), "i64"), fixed + n, X.load(0, (open_,), "f32")]
    assert not any(map(_has_sizes, without)) and all(map(_has_sizes, having))


def test_conditions_by_data_and_by_position() -> None:
    loop, data, named = X.var("i", 4), X.load(0, (X.const(0),), "i64"), X.load("s", (), "i64")
    parts = {"data": data, "loop": loop, "named": named}
    for one, two in product(parts, parts):
        found = _decided_by(X.call("lt", parts[one] * 3, parts[two] + 1))
        assert found == ("data" in (one, two), {one, two} != {"data"})


def test_choices_that_share_branches_take_no_longer() -> None:
    """There are 2^60 ways through 60 choices, each of which reads the one before it in both branches."""
    place = X.var("i", 8)
    x = X.load(type("Slot", (), {"elements": 8, "__hash__": object.__hash__})(), (place,), "f32")
    for k in range(60):
        below, above = (X.call("mul", x, X.const(k + by, "f32")) for by in (0.5, 1.5))
        x = X.select(X.call("lt", x, X.const(float(k), "f32")), below, above)
    assert not [*loads_beyond_choice(x)][1:]
    assert all(e.dtype == "f32" for e in parts_beyond_choice(x))
