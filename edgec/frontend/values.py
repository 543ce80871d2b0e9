"""Tensors as the lowering functions see them: graph nodes with arithmetic, folded while they are built.

A computation on constants alone is carried out at once, so the shape arithmetic that exporters write out
(Shape, Gather, Concat, Reshape, ...) is gone before the graph exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Union

import numpy as np

from edgec import limits, ops
from edgec.errors import ModelError
from edgec.frontend.folding import array, folded, is_static, may_fold
from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.evaluate import evaluate_node
from edgec.ir.expr import Expr, Extent
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Node, topological
from edgec.ir.graph import constant as constant_node
from edgec.ir.types import DTYPES, FLOATS, FOLD_ELEMENTS, Type, is_worth_computing

#: A constant repeated to more elements than this is kept as one copy, which costs no memory in the program.
_REPEATED_ELEMENTS = 4096
#: No tensor of a real model comes near this; a shape beyond it is a mistake or an attack.
MAX_ELEMENTS = 2**40

Scalar = bool | int | float
Operand = Union["Value", Scalar]


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor under construction; arithmetic with Python numbers takes the tensor's element type."""

    node: Node

    @property
    def type(self) -> Type:
        return self.node.type

    @property
    def shape(self) -> Any:
        """The extents; those known only at run time are formulas of sizes, which calculate and compare like numbers."""
        return self.node.type.shape

    @property
    def dtype(self) -> str:
        return self.node.type.dtype

    @property
    def rank(self) -> int:
        return len(self.node.type.shape)

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def is_const(self) -> bool:
        return self.node.is_const

    def __add__(self, other: Operand) -> Value:
        return emit("add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return emit("add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return emit("sub", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return emit("sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        return emit("mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return emit("mul", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return emit("div", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return emit("div", other, self)

    def __neg__(self) -> Value:
        return emit("neg", self)

    def __matmul__(self, other: Value) -> Value:
        return emit("matmul", self, other)

    def __lt__(self, other: Operand) -> Value:
        return emit("lt", self, other)

    def __le__(self, other: Operand) -> Value:
        return emit("le", self, other)

    def __gt__(self, other: Operand) -> Value:
        return emit("gt", self, other)

    def __ge__(self, other: Operand) -> Value:
        return emit("ge", self, other)

    def __and__(self, other: Value) -> Value:
        return emit("and", self, other)

    def __or__(self, other: Value) -> Value:
        return emit("or", self, other)

    def __invert__(self) -> Value:
        return emit("not", self)

    def cast(self, dtype: str) -> Value:
        return self if dtype == self.dtype else emit("cast", self, to=dtype)

    def reshape(self, *shape: Extent) -> Value:
        return self if shape == self.shape else emit("reshape", self, shape=shape)

    def unsqueeze(self, *axes: int) -> Value:
        """Dimensions of extent 1 inserted so that they stand at ``axes`` of the result."""
        rank = self.rank + len(axes)
        new = {normalize_axis(a, rank) for a in axes}
        if len(new) != len(axes):
            raise ModelError(f"axes {list(axes)} name a dimension twice")
        rest = iter(self.shape)
        return self.reshape(*(1 if d in new else next(rest) for d in range(rank)))

    def squeeze(self, *axes: int) -> Value:
        """Without the dimensions ``axes``, which must have extent 1."""
        gone = {normalize_axis(a, self.rank) for a in axes}
        for a in gone:
            if self.shape[a] != 1:
                raise ModelError(f"dimension {a} of shape {list(self.shape)} is not 1 and cannot be squeezed")
        return self.reshape(*(s for d, s in enumerate(self.shape) if d not in gone))

    def transpose(self, *perm: int) -> Value:
        return self if perm == tuple(range(self.rank)) else emit("transpose", self, perm=perm)

    def swap(self, a: int, b: int) -> Value:
        perm = list(range(self.rank))
        perm[a], perm[b] = perm[b], perm[a]
        return self.transpose(*perm)

    def broadcast(self, *shape: Extent) -> Value:
        return self if shape == self.shape else emit("broadcast", self, shape=shape)

    def slice(self, starts: Sequence[Extent], steps: Sequence[int], shape: Sequence[Extent]) -> Value:
        """y[i] = x[starts + steps * i] for i inside ``shape``."""
        if tuple(shape) == self.shape and all(s == 1 for s in steps):
            return self
        return emit("slice", self, starts=tuple(starts), steps=tuple(steps), shape=tuple(shape))

    def part(self, axis: int, start: Extent, stop: Extent, step: int = 1) -> Value:
        """x[..., start:stop:step, ...] along one dimension, with 0 <= start <= stop."""
        starts: list[Extent] = [0] * self.rank
        steps, shape = [1] * self.rank, list(self.shape)
        starts[axis], steps[axis], shape[axis] = start, step, max(-(-(stop - start) // step), 0)
        return self.slice(starts, steps, shape)

    def flip(self, *axes: int) -> Value:
        starts = [extent - 1 if d in axes else 0 for d, extent in enumerate(self.shape)]
        steps = [-1 if d in axes else 1 for d in range(self.rank)]
        return emit("slice", self, starts=tuple(max(s, 0) for s in starts), steps=tuple(steps), shape=self.shape)

    def pad(self, before: Sequence[Extent], after: Sequence[Extent], value: Scalar = 0) -> Value:
        """``value`` around x; a negative amount crops."""
        x = self
        if any(p < 0 for p in (*before, *after)):
            starts = [max(-b, 0) for b in before]
            kept = [max(n - s - max(-a, 0), 0) for n, s, a in zip(x.shape, starts, after)]
            x = x.slice(starts, [1] * x.rank, kept)
        before, after = tuple(max(b, 0) for b in before), tuple(max(a, 0) for a in after)
        if all(isinstance(p, int) and p == 0 for p in (*before, *after)):
            return x
        return emit("pad", x, before=before, after=after, value=value)

    def reduce(self, combine: str, axes: Iterable[int], keep: bool = True) -> Value:
        """add, mul, max, min, and, or over ``axes``; they stay as extent 1 when ``keep``."""
        axes = tuple(sorted(normalize_axis(a, self.rank) for a in axes))
        total = self._repeated_total(axes) if combine == "add" and not self.is_float else None
        if total is not None:
            result = total
        else:
            result = emit("reduce", self, combine=combine, axes=axes) if axes else self
        return result if keep else result.squeeze(*axes)

    def _repeated_total(self, axes: tuple[int, ...]) -> Value | None:
        """The sum of one constant number over dimensions that are open: the number times their extent."""
        count = X.plain(prod(self.shape[a] for a in axes))
        if not isinstance(count, Expr) or not is_static(self.node) or self.node.args[0].type.elements != 1:
            return None
        shape = (1 if d in axes else n for d, n in enumerate(self.shape))
        return (constant(self.node.args[0].value.reshape(()), self.dtype) * size(count).cast(self.dtype)).broadcast(
            *shape
        )

    def sum(self, axes: Iterable[int], keep: bool = True) -> Value:
        return self.reduce("add", axes, keep)

    def mean(self, axes: Iterable[int], keep: bool = True) -> Value:
        axes = tuple(axes)
        count = X.plain(prod(self.shape[a] for a in axes))
        total = self.reduce("add", axes, keep)
        if isinstance(count, Expr):
            return total / size(count).cast(self.dtype)
        return total * (1.0 / count) if self.is_float and count else total / count

    def gather(self, positions: Value | Sequence[int] | np.ndarray, axis: int) -> Value:
        """Whole slices along ``axis``; constant positions in arithmetic progression become a slice."""
        if not isinstance(positions, Value):
            positions = constant(np.asarray(positions, np.int64))
        if positions.is_const and positions.rank == 1 and positions.shape[0]:
            chosen = positions.node.value.astype(np.int64)
            step = int(chosen[1] - chosen[0]) if len(chosen) > 1 else 1
            inside = chosen.min() >= 0 and index.upper(self.shape[axis]) > chosen.max()
            if inside and step and (np.diff(chosen) == step).all() and int(chosen.max()) < self.shape[axis]:
                starts, steps, shape = [0] * self.rank, [1] * self.rank, list(self.shape)
                starts[axis], steps[axis], shape[axis] = int(chosen[0]), step, len(chosen)
                return self.slice(starts, steps, shape)
        return emit("gather", self, positions, axis=axis)

    def equals(self, other: Operand) -> Value:
        return emit("eq", self, other)


def constant(value: Any, dtype: str | None = None) -> Value:
    """A constant tensor; ``dtype`` is one of edgec's names."""
    return Value(constant_node(np.array(value, DTYPES[dtype]) if dtype else np.asarray(value)))


def emit(op: str, *operands: Operand, **attrs: Any) -> Value:
    """The result of a core operator, computed at once when every operand is a constant.

    Python numbers become constants of the type of the first tensor among the operands (for ``select``, among
    its branches). Raises ModelError when the operator refuses its operands or the result is absurdly large.
    """
    node = build(op, *operands, **attrs).node
    if not may_fold(node):
        return Value(node)
    if node.sizes or any(not a.type.is_fixed for a in node.args):
        return Value(node)
    if op == "broadcast" and node.type.elements > _REPEATED_ELEMENTS:
        return Value(node)
    if op in FUNCTIONS or op == "cast":
        # What is the same all along a dimension stays so: one copy is computed, and kept.
        small = [a.args[0] if a.op == "broadcast" else a for a in node.args]
        one = ops.node(op, *small, **attrs)
        return Value(folded(one)).broadcast(*node.type.shape)
    return Value(folded(node))


def carried_out(node: Node, *given: Value) -> Value:
    """A graph made of the ``given`` values, with all that constants alone decide computed, as ``emit`` leaves it."""
    done = {value.node: value for value in given}
    for n in topological([node], known=frozenset(done)):
        done[n] = Value(n) if n.is_const else emit(n.op, *(done[a] for a in n.args), **n.attributes)
    return done[node]


def build(op: str, *operands: Operand, **attrs: Any) -> Value:
    """Like ``emit``, but constants are not computed with (quantized weights are to stay quantized)."""
    typed = [v for v in (operands[1:] if op == "select" else operands) if isinstance(v, Value)]
    args = (v.node if isinstance(v, Value) else constant(v, typed[0].dtype).node for v in operands)
    node = ops.node(op, *args, **attrs)
    limits.node()
    if node.type.elements > MAX_ELEMENTS:
        raise ModelError(
            f"a tensor of shape {list(node.type.shape)} is too large", hint="check the shapes of the inputs"
        )
    for extent in node.type.shape:
        if not isinstance(extent, Expr) and extent < 0:
            raise ModelError(f"a tensor of shape {list(node.type.shape)} has an extent below 0")
        if isinstance(extent, Expr) and index.bounds(extent)[0] < 0:
            text = X.show(extent)
            raise ModelError(
                f"an extent of {text} is less than nothing for some sizes", hint="narrow the range of --dim"
            )
    return Value(node)


def computed(value: Value) -> np.ndarray | None:
    """The array of a value that no input can change, or None."""
    if is_static(value.node):
        return array(value.node)
    nodes = list(topological([value.node]))
    if any(n.op == "input" or n.sizes for n in nodes):
        return None
    arrays: dict[Node, np.ndarray] = {}
    stored = max((n.type.elements for n in nodes if n.is_const), default=0)
    if not all(n.is_const or is_worth_computing(n.type.elements, stored) for n in nodes):
        raise ModelError("a value that is needed at build time is too large to compute", hint="check the shapes")
    for n in nodes:
        arrays[n] = n.value if n.is_const else evaluate_node(n, [arrays[a] for a in n.args])
    return arrays[value.node]


def size(extent: Extent) -> Value:
    """An extent as a scalar of the graph."""
    return constant(extent, "i64") if not isinstance(extent, Expr) else emit("size", value=extent)


def extents_of(shape: Iterable[Extent]) -> Value:
    """A shape as a tensor: what Shape gives."""
    shape = tuple(shape)
    if all(type(extent) is int for extent in shape):
        return constant(np.asarray(shape, np.int64))
    return concat([size(extent).reshape(1) for extent in shape], 0)


def concat(parts: Sequence[Value], axis: int) -> Value:
    """Values one behind the other along ``axis``; one value again and again is stored once, and repeated."""
    first, count = parts[0], len(parts)
    if count == 1:
        return first
    if first.is_const or any(p.node is not first.node for p in parts):
        return emit("concat", *parts, axis=axis)
    before, after = first.shape[:axis], first.shape[axis:]
    return first.unsqueeze(axis).broadcast(*before, count, *after).reshape(*before, count * after[0], *after[1:])


def select(condition: Value, then: Operand, otherwise: Operand) -> Value:
    return emit("select", condition, then, otherwise)


def maximum(a: Operand, b: Operand) -> Value:
    return emit("max", a, b)


def minimum(a: Operand, b: Operand) -> Value:
    return emit("min", a, b)


def clip(x: Value, low: Operand, high: Operand) -> Value:
    return minimum(maximum(x, low), high)


def check_table(*extents: int) -> None:
    """Raises ModelError before a table of indices or weights is made that no real model needs.

    A table of nothing is made from its extents all the same, so each of them is held to it.
    """
    size = max(prod(extents), *extents, 0)
    if size > FOLD_ELEMENTS:
        raise ModelError(f"it needs a table of {size} elements", hint="check the attributes of the node")
    limits.computed(size)


def numbers(count: int) -> np.ndarray:
    """0 .. count-1, as i64. Raises ModelError where no real model needs as many."""
    check_table(count)
    return np.arange(count)


def iota(extent: Extent, axis: int, rank: int, dtype: str = "i64") -> Value:
    """0 .. extent-1 along ``axis`` of a tensor of ``rank`` dimensions, whose other extents are 1."""
    shape = tuple(extent if d == axis else 1 for d in range(rank))
    return emit("iota", shape=shape, axis=axis, dtype=dtype)


def full(shape: Sequence[Extent], value: Scalar, dtype: str) -> Value:
    return constant(value, dtype).broadcast(*shape)


def normalize_axis(axis: int, rank: int) -> int:
    """A non-negative axis; raises ModelError outside -rank .. rank-1."""
    if not -rank <= axis < rank:
        raise ModelError(f"axis {axis} is outside a tensor of {rank} dimensions")
    return axis % rank


def dequantized(codes: Value, scale: Value, offset: Value | None, axis: int, block: int) -> Value:
    """codes * scale + offset, in f32, for groups of ``block`` elements; left to the compiler even where constant."""
    operands = [codes, scale] if offset is None else [codes, scale, offset]
    return build("dequantize", *operands, axis=axis, block=block)
