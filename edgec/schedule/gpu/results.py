"""Operations between the sum of a matrix product and its store, and the way that results take between them."""

from __future__ import annotations

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.functions import FUNCTIONS
from edgec.schedule.contract.int8_dot import BYTES
from edgec.schedule.gpu.tile import AnyTile, TensorTile

#: Of a conversion of integers to floats, and of one to bytes, which a quarter of the lanes can do.
_TO_FLOAT, _TO_BYTES = 2, 6
#: Columns of a tile times operations on a result that are more code, side by side, than a multiprocessor has at hand.
CODE = 5000


def operations_of(epilogue: Expr, accumulator: Expr) -> float:
    """Instructions for a result, about: the prices of functions of the sum, and conversions."""
    depends: set[Expr] = {accumulator}
    total = 0.0
    for e in X.walk(epilogue):
        if e is accumulator or depends.isdisjoint(e.args):
            continue
        depends.add(e)
        if e.op == "cast":
            total += _TO_BYTES if e.dtype in BYTES else _TO_FLOAT if e.args[0].dtype == "i32" else 0
        elif e.op in FUNCTIONS:
            total += FUNCTIONS[e.op].flops
    return total


def is_rolled(tile: AnyTile, operations: float) -> bool:
    """Do the results of a tile pass through shared memory, so that a loop finishes them?"""
    return isinstance(tile, TensorTile) and tile.by_group and tile.split == 1 and tile.n * operations >= CODE
