"""Operators. Each core operator is defined once, by its element formula; everything else is derived from it."""

from edgec.ops.registry import Tensor, compute, formula, is_operator, node, op, operators, over, reduce_over

__all__ = ["Tensor", "compute", "formula", "is_operator", "node", "op", "operators", "over", "reduce_over"]

from edgec.ops import contraction, elementwise, gathering, movement, reduction  # noqa: F401  (they register)
