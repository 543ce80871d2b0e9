"""Carrying a constant scale through linear operators, into the weights where it costs nothing.

``scaled`` carries it upstream: node * s as a node in which the multiplication is done on constants. ``stripped``
takes it (or an offset) off an operand: x = y * s, so that whoever reads x can read y and take care of s.
"""

from __future__ import annotations

from typing import Literal, Union

from edgec import ops
from edgec.ir.graph import Node
from edgec.ir.types import FLOATS
from edgec.rewrite.facts import is_static, uniform
from edgec.rewrite.few_bits import is_kept
from edgec.rewrite.rule import View
from edgec.rewrite.shape import aligned, aligned_shape, inverse, reshaped, through_reshape, varies_only

Refusable = Union[Node, str]
By = Literal["mul", "div"]

#: How many operators a scale is carried through.
REACH = 8


def scaled(node: Node, s: Node, view: View, reach: int = REACH, by: By = "mul") -> Refusable:
    """``node * s`` without a multiplication outside constants, or the sentence why not; ``by`` "div": ``node / s``.

    ``s`` is static and broadcasts to the shape of ``node``.
    """
    if is_static(node) and not is_kept(node):
        product = ops.node(by, node, s)
        return product if product.type.shape == node.type.shape else "the constant would have to be repeated"
    if not reach:
        return "the weights are too far away"
    carry = _CARRIERS.get(node.op)
    if carry is None:
        return f"a scale does not pass through {node.op}"
    if view.uses(node) > 1:
        return f"the result of {node.op} is also needed without the scale"
    return carry(node, s, view, reach - 1, by)


def _conv(node: Node, s: Node, view: View, reach: int, by: By) -> Refusable:
    x, w = node.args
    if not is_static(w):
        return "the weights are not constant"
    if not varies_only(s, node.type.rank, 1):
        return "the scale varies over positions"
    columns = reshaped(s, (s.type.elements, *(1,) * (w.type.rank - 1)))
    return ops.node("conv", x, ops.node(by, w, columns), **node.attributes)


def _matmul(node: Node, s: Node, view: View, reach: int, by: By) -> Refusable:
    a, b = node.args
    rank = node.type.rank
    s = aligned(s, rank)
    batch = range(rank - 2)
    tried = "the scale varies over rows and columns"
    for k, (factor, other_dim) in enumerate(((b, rank - 1), (a, rank - 2))):
        if varies_only(s, rank, *batch, other_dim):
            # A factor that is repeated over batch dimensions cannot take a scale that varies over them.
            own_shape = aligned_shape(factor.type.shape, rank)
            if not varies_only(s, rank, *(d for d in range(rank) if own_shape[d] == node.type.shape[d])):
                tried = "the scale varies over matrices that share their factor"
                continue
            own = reshaped(s, s.type.shape[rank - factor.type.rank :])
            inner = scaled(factor, own, view, reach, by)
            if isinstance(inner, Node):
                return ops.node("matmul", *((inner, b) if k else (a, inner)))
            tried = inner
    return tried


def _sum(node: Node, s: Node, view: View, reach: int, by: By) -> Refusable:
    terms = []
    for term in node.args:
        own: Node | None = s
        if is_static(term):
            terms.append(ops.node(by, term, s))
            continue
        if term.type.shape != node.type.shape:
            own = _restricted(s, term)
        inner = scaled(term, own, view, reach, by) if own is not None else "the scale varies where a term does not"
        if isinstance(inner, str):
            return inner
        terms.append(inner)
    return ops.node(node.op, *terms)


def _restricted(s: Node, term: Node) -> Node | None:
    """``s`` aligned to a term that is broadcast, when it varies along dimensions of the term only."""
    rank = max(term.type.rank, s.type.rank)
    offset = rank - term.type.rank
    wide = [d + offset for d, extent in enumerate(term.type.shape) if extent > 1]
    if not varies_only(s, rank, *wide):
        return None
    return reshaped(s, s.type.shape[max(s.type.rank - term.type.rank, 0) :])


def _product(node: Node, s: Node, view: View, reach: int, by: By) -> Refusable:
    reason = "no factor can take the scale"
    for k, factor in enumerate(node.args):
        own = s if factor.type.shape == node.type.shape else _restricted(s, factor)
        inner = scaled(factor, own, view, reach, by) if own is not None else reason
        if isinstance(inner, Node):
            return ops.node("mul", *((node.args[0], inner) if k else (inner, node.args[1])))
        reason = inner
    return reason


def _first(node: Node, s: Node, view: View, reach: int, by: By) -> Refusable:
    """The scale of a sum, a negation or a quotient is that of its (first) operand."""
    x = node.args[0]
    own = s if x.type.shape == node.type.shape else _restricted(s, x)
    inner = scaled(x, own, view, reach, by) if own is not None else "the scale varies where the operand does not"
    return inner if isinstance(inner, str) else ops.node(node.op, inner, *node.args[1:], **node.attributes)


def _total(node: Node, s: Node, view: View, reach: int, by: By) -> Refusable:
    if node.attributes["combine"] != "add":
        return "it is no sum"
    rank = node.type.rank
    axes = node.attributes["axes"] if node.op == "reduce" else range(rank - len(node.attributes["kernel"]), rank)
    if not varies_only(s, rank, *(d for d in range(rank) if d not in axes)):
        return "the scale varies over positions"
    inner = scaled(node.args[0], s, view, reach, by)
    return inner if isinstance(inner, str) else ops.node(node.op, inner, **node.attributes)


def _rectified(node: Node, s: Node, view: View, reach: int, by: By) -> Refusable:
    """max(x, 0) * s = max(x*s, 0) for a positive s; other bounds would no longer be the model's own numbers."""
    if not (s.is_const and s.type.elements and bool((s.value > 0).all())):
        return "a scale passes a rectifier only when it is positive"
    for k, (x, bound) in enumerate((node.args, node.args[::-1])):
        if uniform(bound) == 0 and x.type.shape == node.type.shape:
            inner = scaled(x, s, view, reach, by)
            return inner if isinstance(inner, str) else ops.node("max", *((bound, inner) if k else (inner, bound)))
    return "a scale passes no bound but zero"


def _moved(node: Node, s: Node, view: View, reach: int, by: By) -> Refusable:
    back = _moved_back(node, s)
    if back is None:
        return f"the scale varies where {node.op} takes dimensions apart"
    inner = scaled(node.args[0], back, view, reach, by)
    return inner if isinstance(inner, str) else ops.node(node.op, inner, **node.attributes)


def _moved_back(node: Node, s: Node) -> Node | None:
    """``s``, a scale of what ``node`` moves to, as a scale of what it moves."""
    (x,) = node.args
    if s.type.elements == 1:
        return reshaped(s, ())
    if node.op == "reshape":
        return through_reshape(s, node.type.shape, x.type.shape)
    if node.op == "transpose":
        return ops.node("transpose", aligned(s, x.type.rank), perm=inverse(node.attributes["perm"]))
    return s if varies_only(s, node.type.rank, *_kept(node)) else None


def _kept(node: Node) -> list[int]:
    """Dimensions that a slice or a padding leaves whole and in order."""
    (x,) = node.args
    same = [d for d, (m, n) in enumerate(zip(x.type.shape, node.type.shape)) if m == n]
    if node.op == "slice":
        return [d for d in same if node.attributes["steps"][d] == 1]
    return same


def _padded(node: Node, s: Node, view: View, reach: int, by: By) -> Refusable:
    if node.attributes["value"] != 0:
        return "the padding is not zero"
    return _moved(node, s, view, reach, by)


def _dequantized(node: Node, s: Node, view: View, reach: int, by: By) -> Refusable:
    """The scale of whole groups is one of their scales, unless these would take more bytes."""
    codes, factor, *rest = node.args
    axis, rank = node.attributes["axis"], node.type.rank
    if s.type.elements != 1 and not varies_only(s, rank, *(d for d in range(rank) if d != axis)):
        return "the scale varies inside the groups of weights of few bits"
    own = aligned(s, rank) if s.type.elements != 1 else reshaped(s, ())
    if factor.type.dtype != s.type.dtype or not factor.is_const:
        return "the scales of weights of few bits would take more bytes"
    scale = ops.node(by, factor, own)
    if scale.type.shape != factor.type.shape or any(r.type.dtype in FLOATS and not r.is_const for r in rest):
        return "the scales of weights of few bits would have to be repeated"
    moved = [ops.node(by, r, own) if r.type.dtype in FLOATS else r for r in rest]
    return ops.node("dequantize", codes, scale, *moved, **node.attributes)


_CARRIERS = {
    "dequantize": _dequantized,
    "conv": _conv, "matmul": _matmul, "add": _sum, "sub": _sum, "mul": _product, "div": _first, "neg": _first,
    "reduce": _total, "pool": _total, "max": _rectified, "reshape": _moved,
    "transpose": _moved, "slice": _moved, "pad": _padded,
}  # fmt: skip


def stripped(node: Node, kind: str, reach: int = REACH) -> tuple[Node, Node] | str:
    """``(y, c)`` with y * c (``kind`` mul) or y + c (add) = node and c static; or the sentence why not.

    ``c`` is aligned to the rank of ``node``.
    """
    if node.op == kind:
        for y, c in (node.args, node.args[::-1]):
            if is_static(c) and y.type.shape == node.type.shape:
                return y, aligned(c, node.type.rank)
    if not reach:
        return "the constant is too far away"
    if node.op == "mul" and kind == "mul":
        for k, factor in enumerate(node.args):
            found = stripped(factor, kind, reach - 1)
            if not isinstance(found, str):
                y, c = found
                product = ops.node("mul", *((node.args[0], y) if k else (y, node.args[1])))
                return product, aligned(c, node.type.rank)
    if node.op not in ("reshape", "transpose", "slice") and not (node.op == "pad" and kind == "mul"):
        return f"the operand has no constant to {kind}"
    found = stripped(node.args[0], kind, reach - 1)
    if isinstance(found, str):
        return found
    y, c = found
    moved = moved_along(node, c)
    if moved is None:
        return f"the constant does not pass through {node.op}"
    return ops.node(node.op, y, **node.attributes), aligned(moved, node.type.rank)


def moved_along(node: Node, s: Node) -> Node | None:
    """``s``, a scale or offset of what ``node`` moves, as one of what it moves to."""
    (x,) = node.args
    if node.op == "pad" and node.attributes["value"] != 0:
        return None
    if s.type.elements == 1:
        return reshaped(s, ())
    if node.op == "reshape":
        return through_reshape(s, x.type.shape, node.type.shape)
    if node.op == "transpose":
        return ops.node("transpose", s, perm=node.attributes["perm"])
    return s if varies_only(s, node.type.rank, *_kept(node)) else None
