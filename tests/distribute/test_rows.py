"""Needed rows of operands whose loads go along several dimensions: of one, or the whole."""

from __future__ import annotations

import pytest
from small_graphs import value

from edgec.distribute.rows import Span, _range, needed
from edgec.ir import expr as X
from edgec.ops import node


@pytest.mark.parametrize("rows", [1, 3])
def test_the_one_dimension_that_the_loop_walks(rows: int) -> None:
    """Every pair of dimensions that an index may be in, the loop alone, halved, or in no index at all."""
    operand = value("x", 8, 9)
    loop, other = X.var("l", 8), X.var("o", 9)
    taken = X.var("rows", rows) + 2 if rows > 1 else X.const(2)

    def found(*indices: X.Expr) -> Span | None:
        return _range(operand, [X.load(0, indices, "f32")], loop, taken)

    assert found(loop, other) == Span(0, 2, 2 + rows)
    assert found(other % 8, loop) == Span(1, 2, 2 + rows)
    assert found(loop // 2, other) == Span(0, 1, (1 + rows) // 2 + 1)
    assert found(X.const(3), other) is None
    assert found(loop, loop) is None  # two ranges, of which neither is enough
    assert found(loop, (loop + other) % 9) == Span(0, 2, 2 + rows)  # the second one is whole


def test_needs_of_a_sum_over_columns() -> None:
    x = value("x", 8, 9)
    total = node("reduce", x, combine="add", axes=(1,))
    assert needed(total, Span(0, 2, 5)) == (Span(0, 2, 5),)
    assert needed(node("transpose", x, perm=(1, 0)), Span(0, 2, 5)) == (Span(1, 2, 5),)
    assert needed(node("add", x, value("z", 1, 9)), Span(0, 2, 5)) == (Span(0, 2, 5), None)
