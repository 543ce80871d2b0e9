"""Control flow: what is computed only when it is wanted."""

from __future__ import annotations

from edgec.errors import ModelError
from edgec.ir import expr as X
from edgec.ir.graph import Formula, Node
from edgec.ir.registry import Tensor, adjoint, compute, node, op
from edgec.ops import graphs


@op
def branch(condition: Tensor, then: Tensor, otherwise: Tensor) -> Formula:
    """``then`` where the one truth value is true, else ``otherwise``; what only the other one needs is not computed.

    The formula is that of a choice; that kernels are skipped is the planner's work (``edgec.fuse.guards``).
    """
    if condition.type.dtype != "bool" or condition.rank or then.type != otherwise.type:
        raise ModelError(f"a branch on {condition.type} between {then.type} and {otherwise.type}")
    return compute(then.shape, lambda *i: X.select(condition[()], then[i], otherwise[i]))


@adjoint("branch")
def _branch_back(n: Node, g: Node, k: int) -> Node:
    """The gradient for the side that was taken, zeros for the other."""
    zeros = graphs.full(0, g.type.dtype, g.type.shape)
    return node("branch", n.args[0], *((g, zeros) if k == 1 else (zeros, g)))
