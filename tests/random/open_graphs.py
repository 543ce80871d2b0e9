"""Random graphs whose values have dimensions that are known only when they run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from small_graphs import gelu, graph, leaky, relu, silu, softmax, value, weights

from edgec import ops
from edgec.ir.expr import Extent, size
from edgec.ir.graph import Graph, Node

UNARY: tuple[Callable[[Node], Node], ...] = (
    relu, silu, gelu, leaky, lambda x: ops.node("exp", x), lambda x: ops.node("neg", x), lambda x: softmax(x),
)  # fmt: skip


class OpenMaker:
    """A chain of operators on x [n, 4 .. 33] or [2, n, m], some of which come together with values before them."""

    def __init__(self, seed: int) -> None:
        self.dice = np.random.default_rng(seed)
        self.n, self.m = size("n", 1, 40), size("m", 2, 9)
        self.width = int(self.dice.choice([4, 7, 8, 16, 17, 33]))
        shapes: list[tuple[Extent, ...]] = [(self.n, self.width), (2, self.n, self.width), (self.m, self.n, 8)]
        shape = shapes[int(self.dice.integers(len(shapes)))]
        self.values = [value("x", *shape)]  # type: ignore[arg-type]

    def number(self, low: int, high: int) -> int:
        return int(self.dice.integers(low, high + 1))

    @property
    def x(self) -> Node:
        return self.values[-1]

    def step_unary(self) -> Node:
        return UNARY[self.number(0, len(UNARY) - 1)](self.x)

    def step_row(self) -> Node:
        """With a constant along the last dimension, where that is fixed."""
        last = self.x.type.shape[-1]
        factor = weights(last) if isinstance(last, int) else weights(1)
        return ops.node(["add", "mul", "max"][self.number(0, 2)], self.x, factor)

    def step_product(self) -> Node:
        last = self.x.type.shape[-1]
        if not isinstance(last, int) or self.x.type.rank < 2:
            return ops.node("tanh", self.x)
        return ops.node("matmul", self.x, weights(last, self.number(3, 20)))

    def step_reduce(self) -> Node:
        axis = self.number(0, self.x.type.rank - 1) if self.x.type.rank > 1 else 0
        if self.x.type.rank == 1:
            return ops.node("abs", self.x)
        return ops.node("reduce", self.x, combine=["add", "max"][self.number(0, 1)], axes=(axis,))

    def step_table(self) -> Node:
        """With the first rows of a table, which lies column by column."""
        rows, last = self.x.type.shape[-2:] if self.x.type.rank > 1 else (0, 0)
        if rows is not self.n or not isinstance(last, int):
            return ops.node("erf", self.x)
        table = ops.node("transpose", weights(last, 40), perm=(1, 0))
        if self.number(0, 2):
            table = ops.node("sin", ops.node("add", table, value("shift", 1, 1)))
        return ops.node("add", self.x, ops.node("slice", table, starts=(0, 0), steps=(1, 1), shape=(rows, last)))

    def step_transpose(self) -> Node:
        order = [int(d) for d in self.dice.permutation(self.x.type.rank)]
        return ops.node("transpose", self.x, perm=tuple(order))

    def step_join(self) -> Node:
        """Beside itself, or something of the same shape, along any dimension."""
        others = [v for v in self.values if v.type == self.x.type]
        other = others[self.number(0, len(others) - 1)]
        if self.number(0, 1):
            return ops.node("add", ops.node("sigmoid", other), self.x)
        return ops.node("concat", self.x, ops.node("neg", other), axis=self.number(0, self.x.type.rank - 1))

    def step_pad(self) -> Node:
        before, after = ([self.number(0, 2) for _ in self.x.type.shape] for _ in range(2))
        return ops.node("pad", self.x, before=tuple(before), after=tuple(after), value=0.5)

    def step_slice(self) -> Node:
        shape = self.x.type.shape
        kept = tuple((n + 1) // 2 if isinstance(n, int) else n for n in shape)
        starts = tuple(n - k if isinstance(n, int) and self.number(0, 1) else 0 for n, k in zip(shape, kept))
        return ops.node("slice", self.x, starts=starts, steps=(1,) * len(shape), shape=kept)

    def graph(self, steps: int) -> Graph:
        kinds = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("step_")]
        for _ in range(steps):
            self.values.append(kinds[self.number(0, len(kinds) - 1)]())
        results = [self.x, *(v for v in self.values[1:-1] if not self.number(0, 7))]
        return graph(*dict.fromkeys(results))
