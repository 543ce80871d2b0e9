"""Real tensors that stand for narrow integers: x = (q - zero) * scale, read off any spelling of it.

``affine`` looks through casts, offsets and scales by constants, and through movements, down to integers of 8 or 16
bits. What rules of quantized arithmetic have to know about an operand is in the three parts of the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from edgec import ops
from edgec.errors import ModelError
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node, constant
from edgec.ir.types import DTYPES, FLOATS, ends
from edgec.rewrite.facts import is_known, is_static
from edgec.rewrite.scaling import moved_along

#: Integers that sums of products are made of, narrow ones first.
NARROW = ("i8", "u8", "i16", "u16")
#: Operators that a tensor of integers is looked for behind.
REACH = 8
#: How far a quotient may be from an integer to be one: the rounding of a few operations in single precision.
_RELATIVE, _ABSOLUTE = 2.0**-21, 1e-5

_values: WeakKeyDictionary[Node, np.ndarray] = WeakKeyDictionary()


@dataclass(frozen=True)
class Affine:
    """x = (q - zero) * scale, element by element. ``zero`` are integers, ``scale`` is static (None for 1); both
    broadcast to the shape of x, which is that of ``q``."""

    q: Node
    zero: np.ndarray
    scale: Node | None

    @property
    def offset(self) -> int | None:
        """The zero point where it is one for all."""
        return int(self.zero.reshape(-1)[0]) if self.zero.size == 1 else None


_PLAIN = np.zeros((), np.int64)


def affine(node: Node, reach: int = REACH) -> Affine | None:
    """``node`` as narrow integers with a zero point and a scale; None where it is nothing of that kind."""
    if not reach or not node.type.is_fixed:
        return None
    if node.is_const:
        return _narrowed(node)
    if node.op == "cast":
        return _cast(node, reach)
    if node.op in ("add", "sub", "mul", "div"):
        return _with_constant(node, reach)
    if node.op in ("reshape", "transpose", "slice", "pad") and node.type.elements:
        return _moved(node, reach)
    return None


def value_of(node: Node) -> np.ndarray:
    """The elements of something static; raises ModelError for what is too large to be `is_known`."""
    if node.is_const:
        return node.value
    if is_static(node) and not is_known(node):
        raise ModelError(
            f"a constant of shape {list(node.type.shape)} is too large to compute", hint="check the shapes of the model"
        )
    if node not in _values:
        _values[node] = run(Graph((), (("value", node),)), {})["value"]
    return _values[node]


def integers(values: np.ndarray, dtypes: tuple[str, ...] = NARROW) -> Node | None:
    """A constant of the first of ``dtypes`` that holds all ``values``; None where none does."""
    for dtype in dtypes:
        low, high = ends(dtype)
        if not values.size or (values.min() >= low and values.max() <= high):
            return constant(values.astype(DTYPES[dtype]))
    return None


def nearest_integers(values: np.ndarray) -> np.ndarray | None:
    """Integers that ``values`` are up to rounding; None where they are not, or leave 31 bits."""
    if not np.isfinite(values).all():
        return None
    whole = np.rint(values)
    if (np.abs(values - whole) > _RELATIVE * np.abs(whole) + _ABSOLUTE).any() or (np.abs(whole) >= 2.0**31).any():
        return None
    found: np.ndarray = whole.astype(np.int64)
    return found


def widened(q: Node) -> Node:
    return ops.node("cast", q, to="i32")


def plus(total: Node, offset: np.ndarray) -> Node:
    """Integers of 32 bits and a constant offset; themselves where that is 0."""
    return total if not offset.any() else ops.node("add", total, constant(offset.astype(np.int32)))


def _narrowed(node: Node) -> Affine | None:
    """A constant of wide integers that are small ones: weights that something has widened."""
    if node.type.dtype in NARROW or node.type.dtype not in ("i32", "i64") or not node.type.elements:
        return None
    q = integers(node.value)
    return None if q is None else Affine(q, _PLAIN, None)


def _cast(node: Node, reach: int) -> Affine | None:
    (x,) = node.args
    if node.type.dtype not in (*FLOATS, "i32", "i64"):
        return None
    if x.type.dtype in NARROW:
        return Affine(x, _PLAIN, None)
    return affine(x, reach - 1) if x.type.dtype in ("i32", "i64") and node.type.dtype != "i32" else None


def _with_constant(node: Node, reach: int) -> Affine | None:
    for k, c in ((1, node.args[1]), (0, node.args[0])):
        x = node.args[1 - k]
        if (k == 0 and node.op not in ("add", "mul")) or not is_known(c) or x.type != node.type:
            continue
        found = affine(x, reach - 1)
        if found is None:
            continue
        if node.op in ("add", "sub"):
            return _offset(found, c, -1 if node.op == "add" else 1)
        if node.type.dtype not in FLOATS:
            return None
        one = constant(np.ones((), DTYPES[c.type.dtype]))
        before = found.scale if found.scale is not None else one
        scale = c if found.scale is None and node.op == "mul" else ops.node(node.op, before, c)
        return Affine(found.q, found.zero, scale)
    return None


def _offset(found: Affine, c: Node, sign: int) -> Affine | None:
    shift = value_of(c)
    if c.type.dtype in FLOATS:
        scale = 1.0 if found.scale is None else value_of(found.scale).astype(np.float64)
        with np.errstate(all="ignore"):
            whole = nearest_integers(shift.astype(np.float64) / scale)
        if whole is None:
            return None
        shift = whole
    return Affine(found.q, found.zero + sign * shift.astype(np.int64), found.scale)


def _moved(node: Node, reach: int) -> Affine | None:
    found = affine(node.args[0], reach - 1)
    if found is None or found.offset is None:
        return None
    scale = found.scale
    attributes = node.attributes
    if node.op == "pad":
        attributes = {**attributes, "value": _padding(found, float(attributes["value"]))}
        if attributes["value"] is None or (scale is not None and scale.type.elements != 1):
            return None
    elif scale is not None:
        scale = moved_along(node, scale)
        if scale is None:
            return None
    return Affine(ops.node(node.op, found.q, **attributes), found.zero.reshape(()), scale)


def _padding(found: Affine, value: float) -> int | None:
    """The integer that a padding by ``value`` is for the integers; None where they have none."""
    assert found.offset is not None
    if value != 0:
        scale = 1.0 if found.scale is None else float(value_of(found.scale).reshape(-1)[0])
        whole = nearest_integers(np.asarray(value / scale))
        if whole is None:
            return None
        value = int(whole)
    low, high = ends(found.q.type.dtype)
    padding = found.offset + int(value)
    return padding if low <= padding <= high else None
