"""Windows over padding: the taps of a convolution or pool that ever read an element, and the operator without the rest.

A tap is one place of a window. Along one dimension, tap k of the window at position p reads element
``p * stride + k * dilation - before``; what lies outside the operand is padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, inf, isfinite, prod

import numpy as np

from edgec import ops
from edgec.ir.graph import Node, constant
from edgec.ir.types import DTYPES, FLOATS, ends
from edgec.rewrite.affine import value_of
from edgec.rewrite.facts import is_known

#: Taps that are looked at one by one.
_FEW = 1 << 12


@dataclass(frozen=True)
class Axis:
    """One dimension of a window operator: ``extent`` elements, ``before`` elements of padding in front of them."""

    extent: int
    before: int
    taps: int
    stride: int
    dilation: int
    positions: int

    def reading(self, tap: int) -> range:
        """Positions at which this tap reads an element."""
        first = -((tap * self.dilation - self.before) // self.stride)
        last = (self.extent - 1 + self.before - tap * self.dilation) // self.stride
        return range(max(first, 0), max(min(last, self.positions - 1) + 1, max(first, 0)))

    def live(self) -> range | None:
        """The fewest taps at equal distances that are all that ever read an element; None where no tap does.

        Where strides are longer than the extent and there are more than `_FEW` taps, it is every tap.
        """
        if not self.extent or not self.positions:
            return None
        if self.stride <= self.extent:  # no element lies between windows: the taps are neighbors
            first = max(-(((self.positions - 1) * self.stride - self.before) // self.dilation), 0)
            last = min((self.extent - 1 + self.before) // self.dilation, self.taps - 1)
            return range(first, last + 1) if first <= last else None
        if self.taps > _FEW:
            return range(self.taps)
        found = [k for k in range(self.taps) if len(self.reading(k))]
        if not found:
            return None
        step = gcd(*(k - found[0] for k in found)) or 1
        return range(found[0], found[-1] + 1, step)

    @property
    def whole(self) -> Part:
        return Part(range(self.positions), range(self.taps))


@dataclass(frozen=True)
class Part:
    """Some neighboring positions along one dimension, and the taps that are computed there."""

    positions: range
    taps: range


@dataclass(frozen=True)
class Windows:
    """A convolution or pool of padded elements: ``casts`` are applied between the padding and the windows."""

    node: Node
    pad: Node
    casts: tuple[Node, ...]
    axes: tuple[Axis, ...]

    @property
    def value(self) -> float | int:
        """The padding as the windows read it."""
        found = np.array(self.pad.attributes["value"]).astype(DTYPES[self.pad.type.dtype])
        for cast in reversed(self.casts):
            found = found.astype(DTYPES[cast.type.dtype])
        value: float | int = found.item()
        return value

    @property
    def kernel(self) -> tuple[int, ...]:
        return tuple(axis.taps for axis in self.axes)


def windows_of(node: Node) -> Windows | str:
    """The windows of a convolution or pool over padding, or the reason why it has none that can be followed."""
    casts: list[Node] = []
    x = node.args[0]
    while x.op == "cast":
        casts.append(x)
        x = x.args[0]
    if x.op != "pad":
        return "its operand is not padded"
    kernel = node.args[1].type.shape[2:] if node.op == "conv" else node.attributes["kernel"]
    lead = node.type.rank - len(kernel)
    numbers = (x.args[0].type.shape[lead:], x.attributes["before"][lead:], x.attributes["after"][lead:])
    if not all(isinstance(n, int) for n in (*kernel, *node.type.shape[lead:], *(n for some in numbers for n in some))):
        return "the sizes are known only at run time"
    geometry = (kernel, node.attributes["strides"], node.attributes["dilations"], node.type.shape[lead:])
    axes = tuple(Axis(*numbers) for numbers in zip(*numbers[:2], *geometry))
    return Windows(node, x, tuple(casts), axes)


def restricted(w: Windows, parts: Sequence[Part]) -> Node:
    """The operator at some positions with some of its taps; each part of ``taps`` reads an element somewhere."""
    x = _read_by(w, parts)
    node, dilations = w.node, tuple(a.dilation * p.taps.step if len(p.taps) > 1 else 1 for a, p in zip(w.axes, parts))
    counts = tuple(len(p.taps) for p in parts)
    if node.op == "conv":
        return ops.node("conv", x, taken(node.args[1], parts), **{**node.attributes, "dilations": dilations})
    if prod(counts) > 1:
        return ops.node("pool", x, **{**node.attributes, "kernel": counts, "dilations": dilations})
    lead = node.type.rank - len(parts)
    steps = (*(1,) * lead, *node.attributes["strides"])
    shape = (*node.type.shape[:lead], *(len(p.positions) for p in parts))
    return x if shape == x.type.shape else ops.node("slice", x, starts=(0,) * len(shape), steps=steps, shape=shape)


def _read_by(w: Windows, parts: Sequence[Part]) -> Node:
    """What the windows at ``parts`` read: a piece of the operand, with the padding that is left."""
    lead = w.node.type.rank - len(parts)
    y = w.pad.args[0]
    starts, shape = [0] * lead, list(y.type.shape[:lead])
    before, after = list(w.pad.attributes["before"][:lead]), list(w.pad.attributes["after"][:lead])
    for axis, part in zip(w.axes, parts):
        low = part.positions[0] * axis.stride + part.taps[0] * axis.dilation - axis.before
        high = part.positions[-1] * axis.stride + part.taps[-1] * axis.dilation - axis.before + 1
        if high <= axis.extent < high + axis.stride:
            high = axis.extent  # what is left is too little for another window
        first, last = min(max(low, 0), axis.extent), max(min(high, axis.extent), 0)
        starts.append(first)
        shape.append(max(last - first, 0))
        before.append(min(max(-low, 0), high - low))
        after.append(high - low - before[-1] - shape[-1])
    if tuple(shape) != y.type.shape:
        y = ops.node("slice", y, starts=tuple(starts), steps=(1,) * len(shape), shape=tuple(shape))
    if any(before) or any(after):
        y = ops.node("pad", y, before=tuple(before), after=tuple(after), value=w.pad.attributes["value"])
    for cast in reversed(w.casts):
        y = ops.node("cast", y, **cast.attributes)
    return y


def taken(weights: Node, parts: Sequence[Part]) -> Node:
    """The weights of some taps."""
    starts = (0, 0, *(p.taps.start for p in parts))
    steps = (1, 1, *(p.taps.step for p in parts))
    shape = (*weights.type.shape[:2], *(len(p.taps) for p in parts))
    if shape == weights.type.shape:
        return weights
    if weights.is_const:
        places = tuple(slice(p.taps.start, p.taps.stop, p.taps.step) for p in parts)
        return constant(np.ascontiguousarray(weights.value[(slice(None), slice(None), *places)]))
    if weights.op == "cast":
        return ops.node("cast", taken(weights.args[0], parts), **weights.attributes)
    return ops.node("slice", weights, starts=starts, steps=steps, shape=shape)


def of_padding(w: Windows, parts: Sequence[Part]) -> Node | None:
    """What the taps of ``parts`` make of padding alone, as it broadcasts to the result; None where it is nothing."""
    value, node = w.value, w.node
    if value == 0:
        return None
    dtype = DTYPES[node.type.dtype]
    if node.op == "pool":
        count = np.array(prod(len(p.taps) for p in parts)).astype(dtype)
        return constant((count * np.array(value, dtype)).astype(dtype))
    weights = node.args[1]
    total = ops.node("reduce", taken(weights, parts), combine="add", axes=tuple(range(1, weights.type.rank)))
    each = ops.node("mul", total, constant(np.array(value, dtype)))
    each = ops.node("reshape", each, shape=(weights.type.shape[0], *(1,) * len(parts)))
    return constant(value_of(each)) if is_known(each) else each


def combined(w: Windows, y: Node | None, kept: Sequence[Part]) -> Node:
    """``y``, what the taps in ``kept`` make, together with what the others make of padding alone."""
    node, every = w.node, [axis.whole for axis in w.axes]
    if node.op == "pool" and node.attributes["combine"] in ("max", "min"):
        value = constant(np.array(w.value, DTYPES[node.type.dtype]))
        if y is None:
            return _filled(node, value)
        return y if is_neutral(w) else ops.node(node.attributes["combine"], y, value)
    whole = of_padding(w, every)
    if y is None:
        return _filled(node, whole if whole is not None else constant(np.zeros((), DTYPES[node.type.dtype])))
    if whole is None:
        return y
    own = of_padding(w, kept)
    assert own is not None
    more = ops.node("sub", whole, own)
    return ops.node("add", y, constant(value_of(more)) if is_known(more) else more)


def is_neutral(w: Windows) -> bool:
    """Does the padding change no maximum (or minimum)?"""
    dtype, is_max = w.node.type.dtype, w.node.attributes["combine"] == "max"
    if dtype in FLOATS:
        return w.value == (-inf if is_max else inf)
    return bool(w.value == ends(dtype)[0 if is_max else 1])


def _filled(node: Node, value: Node) -> Node:
    return ops.node("broadcast", value, shape=node.type.shape)


def refusal(w: Windows) -> str | None:
    """Reason why taps that read padding alone cannot be left out; None where they can."""
    if not w.node.type.elements:
        return "it has no results"
    if w.node.op == "pool" and w.node.attributes["combine"] not in ("add", "max", "min"):
        return f"its windows are combined by {w.node.attributes['combine']}"
    if w.node.type.dtype == "bool":
        return "it combines truth values"
    if (w.node.op == "conv" or w.node.attributes["combine"] == "add") and not isfinite(w.value):
        return "the padding is not finite"
    return None
