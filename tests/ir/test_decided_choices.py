"""Expressions that depend on sizes, on data and on positions, one kind at a time and together."""

from __future__ import annotations

from itertools import product

from edgec.ir import expr as X
from edgec.ir.vector import _decided_by, _has_sizes, keeps_loads, loads_beyond_choice, parts_beyond_choice


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


class Slot:
    """A buffer of so many elements."""

    def __init__(self, elements: int) -> None:
        self.elements = elements


def test_loads_that_may_be_made_before_a_choice() -> None:
    """By data alone, or by positions too while all sizes are known; inside their buffers, at places not loaded."""
    loop, open_loop = X.var("i", 8), X.var("j", X.size("n", 1, 8))
    data = X.load(Slot(1), (X.const(0),), "f32")
    conditions = {
        "data": X.call("lt", data, X.const(0.5, "f32")), "position": X.call("lt", loop, X.const(3)),
        "both": X.call("lt", X.cast(data, "i64"), loop), "sizes": X.call("lt", X.cast(data, "i64"), open_loop),
    }  # fmt: skip
    few, many = Slot(8), Slot(256)
    code = X.cast(X.load(Slot(8), (loop,), "u8"), "i64")
    guarded = X.load(few, (loop,), "f32") * X.const(3.0, "f32")
    branches = {
        "inside": X.load(few, (loop,), "f32"), "last": X.load(few, (loop * 0 + 7,), "f32"),
        "behind": X.load(few, (loop + 1,), "f32"), "before": X.load(few, (loop - 1,), "f32"),
        "loaded": X.load(many, (code % 256,), "f32"), "named": X.load("s", (), "f32"),
        "guarded": X.select(X.call("lt", loop, X.const(3)), guarded, X.const(0.0, "f32")),
    }  # fmt: skip
    for condition, branch, is_first in product(conditions, branches, (True, False)):
        inner, other = X.call("exp", branches[branch]), X.const(1.0, "f32")
        choice = X.select(conditions[condition], *((inner, other) if is_first else (other, inner)))
        moved = [*loads_beyond_choice(choice)]
        is_moved = condition in ("data", "both") and branch in ("inside", "last")
        assert moved == ([branches[branch]] if is_moved else []), (condition, branch)
        assert keeps_loads(choice) == (condition != "position" and branch != "named" and not is_moved)
