"""Random graphs of a few anchors of the sizes that networks have: what is decided by sizes, tiles and caches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from attention_cases import attention
from integer_cases import bytes_of, requantized, scales, wide
from small_graphs import (
    clip,
    coded_weights,
    conv,
    gelu,
    graph,
    layernorm,
    mean,
    pad,
    pool,
    relu,
    silu,
    softmax,
    total,
    transpose,
    value,
    weights,
)  # fmt: skip

from edgec import ops
from edgec.ir.graph import Graph, Node

ROWS, WIDTHS = (1, 2, 8, 13, 64, 100, 256, 1000), (16, 31, 64, 96, 128, 200, 256, 384, 512)
SIDES, CHANNELS = (5, 7, 14, 16, 28, 33), (3, 8, 16, 24, 32, 40, 64, 100, 128)
ACTIVATIONS: tuple[Callable[[Node], Node], ...] = (relu, clip, silu, gelu, lambda x: ops.node("tanh", x), lambda x: x)


class LargeMaker:
    """One anchor, or two behind each other, with what fuses into it on either side."""

    def __init__(self, seed: int) -> None:
        self.dice, self.inputs = np.random.default_rng(seed), 0

    def pick(self, *choices: int) -> int:
        return int(choices[int(self.dice.integers(len(choices)))])

    def chance(self, one_in: int) -> bool:
        return not self.dice.integers(one_in)

    def fresh(self, *shape: int, dtype: str = "f32") -> Node:
        self.inputs += 1
        return value(f"x{self.inputs}", *shape, dtype=dtype)

    def ended(self, x: Node, channel: int) -> Node:
        """With a bias along a dimension, an activation, and a residual, each now and then."""
        if self.chance(2):
            x = ops.node("add", x, weights(*(n if d == channel else 1 for d, n in enumerate(x.type.shape))))
        x = ACTIVATIONS[self.pick(*range(len(ACTIVATIONS)))](x)
        return ops.node("add", x, self.fresh(*x.type.shape)) if self.chance(3) else x

    def anchor_product(self) -> list[Node]:
        rows, terms, width = self.pick(*ROWS), self.pick(*WIDTHS), self.pick(*WIDTHS)
        lead = (self.pick(2, 3, 12),) if self.chance(3) else ()
        x = self.fresh(*lead, rows, terms)
        if self.chance(4):
            x = layernorm(x, len(lead) + 1)
        right = self.fresh(*lead, terms, width) if self.chance(3) else weights(terms, width, scale=terms**-0.5)
        if self.chance(4) and not right.is_const:
            right = transpose(self.fresh(*lead, width, terms), *range(len(lead)), len(lead) + 1, len(lead))
        y = self.ended(ops.node("matmul", x, right), len(lead) + 1)
        return [ops.node("matmul", y, weights(width, self.pick(*WIDTHS)))] if self.chance(3) else [y]

    def anchor_convolution(self) -> list[Node]:
        side, channels, kernel = self.pick(*SIDES), self.pick(*CHANNELS), self.pick(1, 1, 3, 3, 5)
        x = self.fresh(self.pick(1, 1, 1, 4), channels, side, side + self.pick(0, 3))
        inside = pad(x, kernel // 2, kernel // 2) if self.chance(2) or kernel > side else x
        if self.chance(3):
            y = conv(inside, weights(channels, 1, kernel, kernel), self.pick(1, 1, 2), groups=channels)
        else:
            y = conv(inside, weights(self.pick(*CHANNELS), channels, kernel, kernel, scale=0.1), self.pick(1, 1, 2))
        y = self.ended(y, 1)
        if self.chance(4) and min(y.type.shape[2:]) >= 2:
            y = pool(y, ("max", "add")[self.pick(0, 1)], (2, 2), 2)
        return [mean(y, 2, 3)] if self.chance(5) else [y]

    def anchor_attention(self) -> list[Node]:
        queries, keys, features = self.pick(1, 4, 64, 100, 257), self.pick(16, 64, 130, 300), self.pick(16, 32, 64, 80)
        lead = (self.pick(1, 2, 8),)
        parts = (self.fresh(*lead, n, features) for n in (queries, keys, keys))
        mask = self.fresh(queries, keys) if self.chance(3) else None
        return [attention(*parts, mask, is_guarded=self.chance(4))]

    def anchor_rows(self) -> list[Node]:
        x = self.fresh(self.pick(*ROWS), self.pick(*WIDTHS, 1000, 4096))
        y = softmax(x, 1) if self.chance(2) else layernorm(ops.node("add", x, self.fresh(*x.type.shape)), 1)
        found = [y, total(y, 0, combine="max")] if self.chance(3) else [y]
        return [transpose(n, 1, 0) if n.type.rank == 2 and self.chance(4) else n for n in found]

    def anchor_bytes(self) -> list[Node]:
        """Integers of a quantized layer."""
        if self.chance(2):
            rows, terms, width = self.pick(*ROWS), self.pick(*WIDTHS), self.pick(*WIDTHS)
            x, w = self.fresh(rows, terms, dtype="u8"), bytes_of(terms, width)
            y = ops.node("matmul", wide(x, self.pick(0, 3)), wide(w))
            return [requantized(y, scales(width), "u8", 5)]
        channels, side = self.pick(*CHANNELS), self.pick(*SIDES)
        x, w = self.fresh(1, channels, side, side, dtype="i8"), bytes_of(self.pick(*CHANNELS), channels, 1, 1)
        y = conv(wide(x), wide(w), self.pick(1, 2))
        return [requantized(y, scales(y.type.shape[1], 1, 1))]

    def anchor_codes(self) -> list[Node]:
        """Weights of four bits."""
        terms, width = self.pick(64, 128, 256), self.pick(32, 96, 256)
        return [ops.node("matmul", self.fresh(self.pick(1, 1, 5, 32), terms), coded_weights(terms, width, 32))]

    def graph(self) -> Graph:
        kinds = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("anchor_")]
        weighted = [*kinds, self.anchor_product, self.anchor_product, self.anchor_convolution]
        return graph(*weighted[self.pick(*range(len(weighted)))]())
