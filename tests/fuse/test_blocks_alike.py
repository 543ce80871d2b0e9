"""Questions about blocks are asked once for all that differ in the names of what they load."""

from __future__ import annotations

import numpy as np
from small_graphs import value

from edgec.fuse.block import Composer, Likeness, holds, is_affine
from edgec.ir.graph import Formula, Node, constant
from edgec.ops import node


def flattened(name: str, factor: float = 2.0, moved: bool = True, keys: int = 6) -> Node:
    """A product with rows that are joined before it, or taken as they are."""
    x, w = value(name, 4, 3, keys), value(f"{name}_w", 3 * keys if moved else keys, 5)
    rows = (
        node("reshape", x, shape=(4, 3 * keys))
        if moved
        else node("slice", x, starts=(0, 1, 0), steps=(1, 1, 1), shape=(4, 1, keys))
    )
    rows = rows if moved else node("reshape", rows, shape=(4, keys))
    return node("mul", node("matmul", rows, w), node("broadcast", constant(np.float32(factor)), shape=(4, 5)))


def likeness(result: Node) -> Likeness:
    return Composer().likeness(result, lambda n: True)


def test_blocks_of_one_likeness_share_an_answer() -> None:
    asked: list[Formula] = []

    def ask(formula: Formula) -> bool:
        asked.append(formula)
        return is_affine(formula)

    blocks = [flattened(name) for name in ("a", "b", "c")]
    answers = [holds(ask, likeness(b)) for b in blocks]
    assert len(asked) == 1 and len({*answers}) == 1
    assert answers == [is_affine(Composer().compose(b, lambda n: True)) for b in blocks]


def test_what_a_formula_depends_on_is_part_of_a_likeness() -> None:
    usual = likeness(flattened("a"))
    assert usual == likeness(flattened("b")) and hash(usual) == hash(likeness(flattened("b")))
    assert usual != likeness(flattened("a", factor=3.0))  # a number is part of the formula
    assert usual != likeness(flattened("a", keys=4)) and usual != likeness(flattened("a", moved=False))
    x, y = value("x", 2, 3), value("y", 2, 3)
    assert likeness(node("add", x, x)) != likeness(node("add", x, y))  # one load, or two
    inside = node("neg", x)
    alone = Composer().likeness(node("exp", inside), lambda n: False)
    assert alone != Composer().likeness(node("exp", inside), lambda n: n is inside)
    repeated = node("broadcast", value("z", 1, 3), shape=(2, 3))
    assert alone != Composer().likeness(node("exp", repeated), lambda n: False)  # the operator behind a load
