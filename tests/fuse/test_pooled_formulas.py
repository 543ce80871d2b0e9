"""Formulas of pooled products: which are taken, and what breaks each of their conditions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from small_graphs import value

from edgec.fuse.pooled import WINDOW_LIMIT, is_pooled_product, partners, pooled_of
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.graph import Node, constant
from edgec.ir.nest import Split
from edgec.ir.types import Type

IMAGE = value("x", 8, 8, 16)
WEIGHTS = constant(np.zeros((16, 12), np.float32))
Y, COLUMN, N = X.fresh(4), X.fresh(4), X.fresh(12)


@dataclass(frozen=True)
class Made:
    """max over (dy, dx) of relu(sum over k of x[step * y + dy, step * column + dx, k] * w[k, n])."""

    rows: int = 2
    columns: int = 2
    step: int = 2
    pooled: str = "max"
    summed: str = "add"
    product: str = "mul"
    weights: Node = WEIGHTS
    lanes: Expr = N
    turned: bool = False
    beside: bool = False
    computed: bool = False
    repeated: bool = False
    plain: bool = False

    @property
    def body(self) -> Expr:
        dy, dx, k = X.fresh(self.rows), X.fresh(self.columns), X.fresh(16)
        at = (Y * self.step + dy, COLUMN * self.step + (0 if self.repeated else dx), k)
        x, w = X.load(IMAGE, at, "f32"), X.load(self.weights, (k, self.lanes), "f32")
        x = X.call("exp", x) if self.computed else x
        factors = (w, x) if self.turned else (x, w)
        total = X.reduce(self.summed, (k,), X.call(self.product, *factors))  # type: ignore[arg-type]
        value = X.call("max", total, X.const(0.0, "f32"))
        if self.plain:
            return value
        found = X.reduce(self.pooled, [v for v in (dy, dx) if v.op == "var"], value)  # type: ignore[arg-type]
        return found + X.substitute(total, {dy: X.const(0), dx: X.const(0)}) if self.beside else found

    @property
    def split(self) -> Split:
        loops = (Y, COLUMN, N)
        return Split(Type("f32", (4, 4, 12)), loops, loops, self.body)


TAKEN = {
    "largest": Made(), "least": Made(pooled="min"), "mean": Made(pooled="add"), "turned": Made(turned=True),
    "rows alone": Made(columns=1), "four in a row": Made(rows=WINDOW_LIMIT, columns=1, step=WINDOW_LIMIT),
}  # fmt: skip
#: Made otherwise, and whether it still pools sums of products.
OTHERS = {
    "product of a window": (Made(pooled="mul"), False), "too many": (Made(rows=3, columns=2, step=3), False),
    "largest term": (Made(summed="max"), False), "sums of sums": (Made(product="add"), False),
    "sum beside": (Made(beside=True), False), "no window": (Made(plain=True), False),
    "windows overlap": (Made(step=1), True), "windows leave gaps": (Made(step=3), True),
    "one column again and again": (Made(repeated=True), False),
    "weights that change": (Made(weights=value("w", 16, 12)), True),
    "computed": (Made(computed=True), True), "lanes of both": (Made(lanes=COLUMN), True),
    "no constant lanes": (Made(lanes=X.const(3)), True),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_pooled_products(name: str) -> None:
    made = TAKEN[name].split
    found = pooled_of(made.body)
    assert found is not None and is_pooled_product(made)
    assert {v.value.extent for v in found.window} <= {2, 4} and found.sum in X.walk(found.value)
    assert found.whole is made.body and len(found.indices) == 5
    ours = partners(found.window, made.variables, found.indices)
    assert ours is not None and [*ours.values()] == [Y, COLUMN][: len(found.window)]


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_none(name: str) -> None:
    made, is_pooled = OTHERS[name]
    assert (pooled_of(made.body) is not None) == is_pooled and not is_pooled_product(made.split)


def test_types_that_are_not_pooled() -> None:
    """Integers, and halves."""
    for dtype in ("i32", "f16", "f64"):
        k, d = X.fresh(16), X.fresh(2)
        total = X.reduce("add", (k,), X.load(IMAGE, (Y * 2 + d, k), dtype) * X.load(WEIGHTS, (k, N), dtype))
        for body in (X.reduce("max", (d,), total), X.reduce("max", (d,), X.cast(total, "f32"))):
            assert pooled_of(body) is None


def test_windows_of_two_loops() -> None:
    """A window has one loop that goes on where it ends; two, or a window in no index, have none."""
    d = X.fresh(2)
    assert partners((d,), (Y, COLUMN), [Y * 2 + d]) == {d: Y}
    assert partners((d,), (Y, COLUMN), [Y * 2 + d + COLUMN * 2]) is None
    assert partners((d,), (Y,), [Y * 2]) is None and partners((d,), (Y,), []) is None
    assert partners((d,), (Y,), [Y * 2 + d, COLUMN]) == {d: Y} and partners((d,), (Y,), [Y * 2 + d, Y]) is None
    assert partners((), (Y,), [Y]) == {}
