"""Numbers of few bits: codes with a scale for each group of them."""

from __future__ import annotations

from edgec.errors import ModelError
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.graph import Formula
from edgec.ir.registry import Tensor, compute, op
from edgec.ir.types import FLOATS


@op
def dequantize(codes: Tensor, scale: Tensor, offset: Tensor | None = None, *, axis: int, block: int) -> Formula:
    """codes * scale + offset in f32, for groups of ``block`` elements along ``axis``.

    ``scale`` and ``offset`` have a number for each group: the shape of ``codes``, with ceil(extent / block) elements
    along ``axis``. Instead, any of their other dimensions may have extent 1. An ``offset`` of integers is a zero
    point: (codes - offset) * scale.
    """
    if codes.dtype in FLOATS or codes.dtype == "bool":
        raise ModelError(f"codes of {codes.dtype}", hint="they are integers")
    groups = X.plain(-(-codes.shape[axis] // block))
    whole = [*codes.shape]
    whole[axis] = groups
    for x in (scale, *([] if offset is None else [offset])):
        fits = x.rank == codes.rank and all(n in (1, m) for n, m in zip(x.shape, whole)) and x.shape[axis] == groups
        if not fits:
            raise ModelError(f"{x.type} has no number for each group of {block} of {codes.type} along {axis}")
    if scale.dtype not in FLOATS:
        raise ModelError(f"scales of {scale.dtype}", hint="they are floats")

    def body(*i: Expr) -> Expr:
        of = (*i[:axis], i[axis] // block, *i[axis + 1 :])
        code, factor = X.cast(codes[i], "f32"), X.cast(scale[of], "f32")
        if offset is None:
            return code * factor
        other = X.cast(offset[of], "f32")
        return code * factor + other if offset.dtype in FLOATS else (code - other) * factor

    return compute(codes.shape, body)
