"""Running combinations: every element with all that come before it."""

from __future__ import annotations

from math import prod

import numpy as np

from edgec.errors import ModelError
from edgec.ir import expr as X
from edgec.ir.dtypes import neutral
from edgec.ir.graph import Node, Procedure
from edgec.ir.index import upper
from edgec.ir.registry import Tensor, adjoint, node, procedure
from edgec.ir.types import DTYPES, STORED, Type

#: Neighboring lines that a task walks together, so that it reads whole cache lines where they lie side by side.
_LINES = 64
_COMBINE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@procedure
def prefix(x: Tensor, *, combine: str, axis: int, exclusive: bool = False, reverse: bool = False) -> Procedure:
    """Running combination (add, mul, max, min) along ``axis``, from its end if ``reverse``.

    With ``exclusive`` an element is not part of its own. Terms are added one after the other; half precision runs in
    f32 and is rounded when it is stored. NaN stays once it is met.
    """
    if x.dtype in STORED or x.dtype == "bool":
        raise ModelError(f"running combinations of {x.dtype}", hint="cast to a wider type first")
    outer, extent, inner = prod(x.shape[:axis]), x.shape[axis], X.plain(prod(x.shape[axis + 1 :]))

    def compute(values: np.ndarray) -> np.ndarray:
        wide = values.astype(np.float32) if x.dtype in ("f16", "bf16") else values
        wide = np.flip(wide, axis) if reverse else wide
        running = _COMBINE[combine].accumulate(wide, axis=axis, dtype=wide.dtype)
        if exclusive and extent:
            start = np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), neutral(combine, x.dtype), wide.dtype)
            running = np.concatenate([start, np.take(running, np.arange(extent - 1), axis)], axis)
        return (np.flip(running, axis) if reverse else running).astype(DTYPES[x.dtype])

    blocks = -(-inner // _LINES)
    return Procedure(
        Type(x.dtype, x.shape),
        compute,
        tasks=outer * blocks,
        steps=x.type.elements,
        overwrites=0,
        sizes={"extent": extent, "inner": inner, "blocks": blocks, "lines": min(upper(inner), _LINES)},
    )


@adjoint("prefix")
def _prefix_back(n: Node, g: Node, k: int) -> Node:
    """Of running sums: the running sum from the other end."""
    if n.attributes["combine"] != "add":
        raise ModelError(f"running combinations by '{n.attributes['combine']}' have no derivative, sums have")
    return node("prefix", g, **{**n.attributes, "reverse": not n.attributes["reverse"]})
