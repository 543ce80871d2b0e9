"""Guards refuse what they have to: without one of its clauses a rule is found wrong."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from benchmarks.rules import guards
from benchmarks.rules.guards import FOLDER, RULES, clauses, tried, wrong
from edgec import ops
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.graph import Node, constant, placeholder
from edgec.ir.types import Type
from edgec.rewrite.sample import given

#: Clauses without which nothing was found wrong, one a line: of those that follow a tab and a number, so many instances
#: are then changed, all rightly (they refuse what would gain nothing, or would not end); the others were not reached.
HARMLESS = Path(__file__).with_name("harmless_clauses.txt")


def harmless() -> set[str]:
    return {line.partition("\t")[0] for line in HARMLESS.read_text(encoding="utf-8").splitlines()}


@pytest.fixture(autouse=True)
def quiet() -> None:
    """Neighbors of instances overflow and divide by zero, on both sides alike."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda f: f.stem)
def test_a_clause_less_is_found_wrong(file: Path, tmp_path: Path) -> None:
    listed = harmless()
    lived = [str(c) for c in clauses(file) if str(c) not in listed and tried(c, tmp_path).counterexample is None]
    assert not lived


def test_what_is_listed_as_harmless_is_there() -> None:
    there = {str(c) for file in FOLDER.glob("*.py") for c in clauses(file)}
    assert harmless() <= there
    assert len(harmless()) < 0.6 * len(there)


def running(exclusive: bool) -> Node:
    sums = ops.node("prefix", given("x", 2, 4), combine="add", axis=1, exclusive=exclusive, reverse=False)
    return ops.node("slice", sums, starts=(0, 3), steps=(1, 1), shape=(2, 1))


def adjacent(step: int) -> Node:
    x = given("x", 2, 9)
    parts = (ops.node("slice", x, starts=(0, at), steps=(1, by), shape=(2, 2)) for at, by in ((0, 1), (2, step)))
    return ops.node("concat", *parts, axis=1)


def padded(start: int) -> Node:
    around = ops.node("pad", given("x", 2, 4), before=(0, 2), after=(0, 2), value=3.0)
    return ops.node("slice", around, starts=(0, start), steps=(1, 1), shape=(2, 3))


def greatest(*factor: int) -> Node:
    """Of rows times a constant of a shape."""
    return ops.node("reduce", ops.node("mul", given("x", 3), constant(np.full(factor, 0.5))), combine="max", axes=(0,))


def shifted(*count: int) -> Node:
    x = ops.node("shl", given("x", 3, dtype="i64"), constant(np.full(count, 2)))
    return ops.node("reduce", x, combine="add", axes=(0,))


def summed(times: int, dtype: str) -> Node:
    x = ops.node("add", given("x", times, dtype=dtype), given("c", 1, dtype=dtype))
    return ops.node("reduce", x, combine="add", axes=(0,))


def turned_less(*zero: int) -> Node:
    """A product of bytes less a zero point of a shape, turned."""
    x, y = (ops.node("cast", given(name, 3, 5, dtype="u8"), to="i32") for name in "xy")
    centered = ops.node("sub", x, ops.node("cast", given("z", *zero, dtype="u8"), to="i32"))
    rank = centered.type.rank
    return ops.node("matmul", ops.node("transpose", centered, perm=(*range(rank - 2), rank - 1, rank - 2)), y)


def divided(dtype: str, op: str = "div", terms: Extent = 9) -> Node:
    """A product of rows that are divided each by its own number."""
    shapes: dict[str, tuple[Extent, ...]] = {"x": (2, terms), "y": (terms, 2), "s": (2, 1)}
    x, y, s = (placeholder(name, Type(dtype, shape)) for name, shape in shapes.items())
    return ops.node("matmul", ops.node(op, x, s), y)


@pytest.mark.parametrize(
    ("rule", "just_inside", "just_outside"),
    [
        ("last_of_running_sum", [running(False)], [running(True)]),
        ("join_adjacent_slices", [adjacent(1)], [adjacent(2), adjacent(3), adjacent(-1)]),
        ("draw_out_positive_factor", [greatest(), greatest(1)], [greatest(1, 1), greatest(3)]),
        ("sum_before_shift", [shifted(), shifted(1)], [shifted(1, 1), shifted(3)]),
        ("draw_out_summand", [summed(100, "i8")], [summed(130, "i8"), summed(70000, "f16")]),
        ("draw_out_both_zero_points", [turned_less(), turned_less(1, 1)], [turned_less(1, 1, 1), turned_less(1, 5)]),
        (
            "scale_after_product",
            [divided("f32"), divided("i32", "mul")],
            [divided("i32"), divided("i8"), divided("f16")],
        ),
        ("slice_inside_padding", [padded(2), padded(3)], [padded(0), padded(1), padded(4), padded(5)]),
    ],
)
def test_at_the_border(rule: str, just_inside: list[Node], just_outside: list[Node]) -> None:
    for node in just_inside:
        (replacement,) = guards.proposed(RULES[rule], node)
        assert wrong(RULES[rule], node, replacement) is None
    for node in just_outside:
        assert not guards.proposed(RULES[rule], node)


def test_sums_that_may_be_empty_keep_their_factors() -> None:
    """A norm of nothing is 0, and 0 / 0 no number, where the sum of nothing is 0."""
    rule = RULES["scale_after_product"]
    for op in ("mul", "div"):
        assert guards.proposed(rule, divided("f32", op, X.size("n", 1, 9)))
        assert not guards.proposed(rule, divided("f32", op, X.size("n", 0, 9)))
        assert not guards.proposed(rule, divided("f32", op, 0))


@pytest.mark.parametrize("rule", ["compare_before_rising", "reduce_before_rising"])
@pytest.mark.parametrize("function", ["sqrt", "log", "log1p"])
def test_results_that_are_no_numbers_are_kept(rule: str, function: str) -> None:
    """The greatest of sqrt(-1) and sqrt(4) is no number; sqrt of the greatest would be one."""
    x, y = (ops.node(function, given(name, 2, 3)) for name in "xy")
    single = ops.node("max", x, y) if rule.startswith("compare") else ops.node("reduce", x, combine="max", axes=(1,))
    assert not guards.proposed(RULES[rule], single)
