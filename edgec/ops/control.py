"""Control flow: what is computed only when it is wanted."""

from __future__ import annotations

from edgec.errors import ModelError
from edgec.ir import expr as X
from edgec.ir.graph import Formula
from edgec.ir.registry import Tensor, compute, op


@op
def branch(condition: Tensor, then: Tensor, otherwise: Tensor) -> Formula:
    """``then`` where the one truth value is true, else ``otherwise``; what only the other one needs is not computed.

    The formula is that of a choice; that kernels are skipped is the planner's work (``edgec.fuse.guards``).
    """
    if condition.type.dtype != "bool" or condition.rank or then.type != otherwise.type:
        raise ModelError(f"a branch on {condition.type} between {then.type} and {otherwise.type}")
    return compute(then.shape, lambda *i: X.select(condition[()], then[i], otherwise[i]))
