"""Tables of few bits that a product multiplies by too: rows are looked up in the panels of the product.

Tied embeddings are the case in point. The panels hold every code once; a lookup decodes the words that it needs, and
only scales and offsets, which are small, are stored twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from edgec.fuse import Block
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.graph import Node
from edgec.ir.nest import coefficient, most
from edgec.ir.types import FLOATS
from edgec.schedule.contract.few_bits import FewBits

#: Smaller tables are stored twice.
LEAST = 1 << 14


def tied(blocks: Iterable[Block]) -> dict[Node, Block]:
    """Tables of codes [rows, columns], and the product that multiplies by each, where another block looks rows up."""
    products: dict[Node, Block] = {}
    looked_up: set[Node] = set()
    for block in blocks:
        if block.is_procedure:
            continue
        for node in block.inputs:
            if not node.is_const or node.type.dtype in FLOATS or node.type.rank != 2 or node.type.elements < LEAST:
                continue
            if block.kind == "contract":
                products.setdefault(node, block)
            else:
                looked_up.add(node)
    return {node: block for node, block in products.items() if node in looked_up}


def in_panels(table: Node, schedule: FewBits) -> bool:
    """Are the columns of a product's panels the rows of ``table``, all of them and in order?"""
    rows, columns = table.type.shape
    if schedule.panel_outer or schedule.packed is None:
        return False
    steps = [coefficient(schedule.place, v) for v in (schedule.n, *schedule.k) if v.op == "var"]
    wanted = [(schedule.n, columns), (schedule.k[0], schedule.group), (schedule.k[1], 1)]
    is_whole = most(schedule.n) == rows and schedule.k_extent == columns
    return is_whole and steps == [step for v, step in wanted if v.op == "var"]


def decoded(schedule: FewBits, place: tuple[Expr, ...]) -> Expr:
    """The code of a table at (row, column), from the words of a product's panels."""
    row, column = place
    packed = schedule.packed
    width, group = schedule.width, schedule.group
    first = (row // width) * schedule.panel_words + row % width
    number, inside = column // group, column % group
    whole = schedule.factor_words + schedule.span * schedule.group_words
    start = first + (number // schedule.span) * whole + schedule.factor_words
    start = start + (number % schedule.span) * schedule.group_words + schedule.number_words

    def word(at: Expr) -> Expr:
        return X.load(packed, (start + at * width,), "i32")

    def bits_of(value: Expr, shift: Expr, mask: int) -> Expr:
        return X.call("bitand", X.call("shr", value, X.cast(shift, "i32")), X.const(mask, "i32"))

    if schedule.bits == 8:
        code = bits_of(word(inside // 4), inside % 4 * 8, 255)
        if schedule.signed:
            code = X.call("bitxor", code, X.const(128, "i32"))
    else:
        half = inside % 4 * 8 + inside // 4 % 2 * 4
        if schedule.bits == 4:
            code = bits_of(word(inside // 8), half, 15)
        else:
            code = bits_of(word(inside // 16 * 3 + inside // 8 % 2), half, 15)
            high = bits_of(word(inside // 16 * 3 + 2), inside % 4 * 8 + inside // 4 % 4 * 2, 3)
            code = code + high * 16
    return code + schedule.low
