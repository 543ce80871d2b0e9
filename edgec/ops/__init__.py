"""Operators. Each core operator is defined once, by its element formula; everything else is derived from it.

What has no good element formula is a procedure: an algorithm, with a C template of its own.
"""

from edgec.ir.registry import (
    Tensor,
    adjoint,
    compute,
    formula,
    is_operator,
    is_procedure,
    meaning,
    node,
    op,
    operators,
    over,
    procedure,
    reduce_over,
)

__all__ = [
    "Tensor",
    "adjoint",
    "compute",
    "formula",
    "is_operator",
    "is_procedure",
    "meaning",
    "node",
    "op",
    "operators",
    "over",
    "procedure",
    "reduce_over",
]

from edgec.ops import (  # noqa: F401  (they register)
    attention,
    chance,
    contraction,
    control,
    coupling,
    dequantization,
    elementwise,
    gathering,
    movement,
    ranks,
    recurrence,
    reduction,
    scan,
    scattering,
    selection,
    sorting,
    trees,
)
