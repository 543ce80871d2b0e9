"""Epilogue of a contraction: element-wise work on its results, and pooling of neighboring ones."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.fuse.pooled import pooled_of
from edgec.ir import expr as X
from edgec.ir.expr import Expr

#: The slot that stands for a sum in what follows it.
ACCUMULATOR = "accumulator"


@dataclass(frozen=True)
class Around:
    """A formula around its one sum: ``epilogue`` is over ``accumulator``.

    Where several sums are one result, ``sum`` is over the variables of ``window``, ``accumulator`` has an index for
    each of them, and the epilogue holds a reduction over as many.
    """

    sum: Expr
    window: tuple[Expr, ...]
    epilogue: Expr
    accumulator: Expr


def around_sum(body: Expr) -> Around | None:
    """The parts of a formula that is one sum of products, pooled or not, and what follows; else None."""
    pooled = pooled_of(body)
    if pooled is not None:
        accumulator = X.load(ACCUMULATOR, pooled.window, pooled.sum.dtype)
        value = X.substitute(pooled.value, {pooled.sum: accumulator})
        combined = X.reduce(pooled.whole.value[0], pooled.window, value)
        return Around(pooled.sum, pooled.window, X.substitute(body, {pooled.whole: combined}), accumulator)
    sums = [e for e in X.walk(body) if e.op == "reduce"]
    if len(sums) != 1 or sums[0].value[0] != "add" or sums[0].args[0].op != "mul":
        return None
    accumulator = X.load(ACCUMULATOR, (), sums[0].dtype)
    return Around(sums[0], (), X.substitute(body, {sums[0]: accumulator}), accumulator)


def scaled(epilogue: Expr, scale: Expr) -> Expr:
    """An epilogue over sums that are to be multiplied by ``scale`` first."""
    sums = [e for e in X.loads(epilogue) if e.value == ACCUMULATOR]
    return X.substitute(epilogue, {e: e * scale for e in sums})


def over_lanes(epilogue: Expr, n: Expr) -> Expr:
    """An epilogue over sums that lie along the lanes ``n``."""
    sums = [e for e in X.loads(epilogue) if e.value == ACCUMULATOR]
    return X.substitute(epilogue, {e: X.load(ACCUMULATOR, (n,), e.dtype) for e in sums})
