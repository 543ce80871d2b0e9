"""Ingredients of random graphs: values, the leaves they come from, and their exactness.

Values that come from small whole numbers by additions, products and choices are exact in every evaluation order as long
as they stay small, so they are compared bit for bit; what rounds (division, exp, ...) is marked inexact, kept away from
functions with steps, and compared with a tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from hypothesis import strategies as st

from edgec import ops
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import DTYPES, Type

#: Values beyond this are clipped before they are used again: products of two stay exact in float32.
LIMIT = 2.0**9
#: No value has more elements than this.
ELEMENTS = 3000
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 33)


@dataclass(frozen=True)
class Value:
    """A node, the most its elements can be, and whether they are the same in every order of evaluation."""

    node: Node
    most: float
    exact: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self.node.type.shape

    @property
    def dtype(self) -> str:
        return self.node.type.dtype

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True)
class Case:
    """A graph, and which of its outputs must be equal to the last bit."""

    graph: Graph
    exact: frozenset[str]


def is_plain_sum(kernel: Sequence[int], strides: Sequence[int], factors: int) -> bool:
    """Is a convolution with so many factors at a tap added up as it stands? Winograd's method rounds."""
    return max(kernel) == 1 or max(strides) > 1 or factors < 64


class Maker:
    """Draws every decision about one graph, and keeps its inputs and the values made so far."""

    def __init__(self, draw: Callable[[st.SearchStrategy], object], empty: bool) -> None:
        self.draw = draw
        self.random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        self.extents = (0, *EXTENTS) if empty else EXTENTS
        self.inputs: list[Node] = []
        self.values: list[Value] = []

    # ---- drawing

    def pick(self, choices):  # type: ignore[no-untyped-def]
        return self.draw(st.sampled_from(list(choices)))

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))  # type: ignore[call-overload]

    def chance(self, one_in: int) -> bool:
        return self.number(1, one_in) == 1

    def shape(self, rank: int) -> tuple[int, ...]:
        result: list[int] = []
        for _ in range(rank):
            room = ELEMENTS // max(1, prod(result))
            result.append(self.pick([e for e in self.extents if e <= room]))
        return tuple(result)

    # ---- leaves

    def leaf(self, shape: tuple[int, ...], dtype: str = "f32", low: int = -3, high: int = 3) -> Value:
        """An input or a constant of small whole numbers."""
        if dtype.startswith("u") or dtype == "bool":
            low, high = 0, 1 if dtype == "bool" else high
        if self.chance(2):
            node = constant(self.random.integers(low, high + 1, shape).astype(DTYPES[dtype]))
        else:
            node = placeholder(f"x{len(self.inputs)}", Type(dtype, shape))
            self.inputs.append(node)
        return Value(node, max(abs(low), abs(high)), True)

    def add(self, node: Node, most: float, exact: bool) -> Value:
        """A new value; one that is large or of too many elements is cut down."""
        if most > LIMIT and node.type.dtype in ("f32", "f64", "i32", "i64"):
            limit = constant(np.array(LIMIT, DTYPES[node.type.dtype]))
            node, most = ops.node("max", ops.node("min", node, limit), ops.node("neg", limit)), LIMIT
        value = Value(node, most, exact)
        self.values.append(value)
        return value

    def operand(self, dtype: str | None = "f32", rank: int | None = None, least: int = 0) -> Value:
        """A value made so far, most often the last; of another rank if need be; seldom a new leaf."""
        fits = [v for v in self.values if dtype in (None, v.dtype) and v.node.type.elements >= least]
        if fits and not self.chance(12):
            x = fits[-1] if not self.chance(3) else self.pick(fits)
            return x if rank in (None, x.rank) else self.of_rank(x, rank)
        shape = self.shape(self.pick([0, 1, 2, 2, 3, 3, 4, 4]) if rank is None else rank)
        if prod(shape) < least:
            shape = tuple(max(e, 2) for e in shape) or (2,)
        return self.leaf(shape, dtype or "f32")

    def of_rank(self, x: Value, rank: int) -> Value:
        """``x`` with dimensions merged or ones inserted."""
        shape = list(x.shape)
        while len(shape) > rank:
            k = self.number(0, len(shape) - 2)
            shape[k : k + 2] = [shape[k] * shape[k + 1]]
        while len(shape) < rank:
            shape.insert(self.number(0, len(shape)), 1)
        return Value(ops.node("reshape", x.node, shape=tuple(shape)), x.most, x.exact)

    def partner(self, x: Value) -> Value:
        """A value that broadcasts with ``x``."""
        same = [v for v in self.values if v.dtype == x.dtype and v.shape == x.shape]
        if same and self.chance(2):
            return self.pick(same)
        shape = [1 if self.chance(3) else e for e in x.shape]
        cut = self.number(0, len(shape)) if self.chance(3) else 0
        return self.leaf(tuple(shape[cut:]), x.dtype)

    def one(self, value: float, dtype: str = "f32") -> Node:
        return constant(np.array(value, DTYPES[dtype]))

    def exactly(self, x: Value) -> Value:
        """The same value if it is exact, else a leaf of its shape: for functions with steps."""
        return x if x.exact else self.leaf(x.shape, x.dtype)


def arrays(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """Small whole numbers for every input; positions and choices use what range their type has."""
    random = np.random.default_rng(seed)
    made: dict[str, np.ndarray] = {}
    for n in graph.inputs:
        low, high = (0, 1) if n.type.dtype == "bool" else (0, 3) if n.type.dtype.startswith("u") else (-3, 3)
        made[n.attributes["name"]] = random.integers(low, high + 1, n.type.shape).astype(DTYPES[n.type.dtype])
    return made
