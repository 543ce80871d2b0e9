"""Random convolutional networks: what real models are made of, in shapes and orders nobody has tried.

Values are exact as in ``random_graphs``; a layer clips what has grown too large, which is an activation like others.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st
from random_values import LIMIT, Case, Maker, Value, is_plain_sum

from edgec import ops
from edgec.ir.graph import Graph, constant

CHANNELS = (1, 3, 4, 5, 8, 8, 12, 16, 17, 24, 33, 40)


class NetworkMaker(Maker):
    """Layers on images [N, C, H, W]; ``images`` are the values that later layers may come back to."""

    def __init__(self, draw: Callable[[st.SearchStrategy], object]) -> None:
        super().__init__(draw, False)
        shape = (self.pick((1, 1, 1, 2)), self.pick(CHANNELS), self.number(3, 12), self.number(3, 14))
        self.images = [self.leaf_input(shape)]

    def leaf_input(self, shape: tuple[int, ...]) -> Value:
        value = self.leaf(shape)
        while value.node.is_const:
            value = self.leaf(shape)
        return value

    @property
    def x(self) -> Value:
        return self.images[-1]

    def filters(self, *shape: int) -> Value:
        node = constant(self.random.integers(-1, 2, shape).astype(np.float32))
        return Value(node, 1, True)

    # ---- layers

    def convolved(self, x: Value, outputs: int, kernel: tuple[int, int], stride: int, groups: int) -> Value:
        sides = [self.pick((0, (k - 1) // 2, k // 2, k - 1)) for k in kernel]
        if self.chance(4) or any(n + 2 * s < k for n, s, k in zip(x.shape[2:], sides, kernel)):
            sides = [k - 1 for k in kernel]
        n = x.node
        if any(sides):
            n = ops.node("pad", n, before=(0, 0, *sides), after=(0, 0, *sides), value=self.pick((0.0, 0.0, 1.0)))
        w = self.filters(outputs, x.shape[1] // groups, *kernel)
        n = ops.node("conv", n, w.node, strides=(stride, stride), dilations=(1, 1), groups=groups)
        most = max(x.most, 1) * kernel[0] * kernel[1] * x.shape[1] // groups
        if self.chance(2):
            n, most = ops.node("add", n, self.leaf((outputs, 1, 1)).node), most + 3
        is_exact = x.exact and is_plain_sum(kernel, (stride,), outputs * x.shape[1] // groups)
        return self.add(n, most, is_exact)

    def kernel(self, x: Value) -> tuple[int, int]:
        k = self.pick((1, 1, 2, 3, 3, 5))
        return (k, k) if not self.chance(6) else (1, k)

    def layer_conv(self) -> None:
        x = self.x
        groups = self.pick([g for g in (1, 1, 1, 2, 4) if x.shape[1] % g == 0])
        outputs = groups * self.pick([c for c in CHANNELS if c * groups <= 48])
        self.images.append(self.convolved(x, outputs, self.kernel(x), self.pick((1, 1, 2)), groups))

    def layer_depthwise(self) -> None:
        x = self.x
        times = self.pick((1, 1, 2)) if x.shape[1] <= 20 else 1
        self.images.append(self.convolved(x, x.shape[1] * times, self.kernel(x), self.pick((1, 2)), x.shape[1]))

    def layer_activation(self) -> None:
        x, kind = self.x, self.pick(("relu", "relu", "leaky", "silu", "clip", "prelu"))
        zero = self.one(0)
        if kind == "relu":
            node, exact = ops.node("max", x.node, zero), x.exact
        elif kind == "leaky":
            node = ops.node("select", ops.node("lt", x.node, zero), ops.node("mul", x.node, self.one(0.5)), x.node)
            exact = x.exact
        elif kind == "clip":
            node, exact = ops.node("min", ops.node("max", x.node, zero), self.one(6)), x.exact
        elif kind == "prelu":
            slope = self.filters(x.shape[1], 1, 1)
            below = ops.node("mul", ops.node("min", x.node, zero), slope.node)
            node, exact = ops.node("add", ops.node("max", x.node, zero), below), x.exact
        else:
            node, exact = ops.node("mul", x.node, ops.node("sigmoid", x.node)), False
        self.images.append(self.add(node, x.most, exact))

    def layer_residual(self) -> None:
        same = [v for v in self.images[:-1] if v.shape == self.x.shape]
        if same:
            y = self.pick(same)
            name = self.pick(("add", "add", "mul", "sub"))
            most = self.x.most * y.most if name == "mul" else self.x.most + y.most
            self.images.append(self.add(ops.node(name, y.node, self.x.node), most, self.x.exact and y.exact))

    def layer_join(self) -> None:
        fits = [v for v in self.images if v.shape[0] == self.x.shape[0] and v.shape[2:] == self.x.shape[2:]]
        parts = [self.pick(fits) for _ in range(self.number(1, 2))] + [self.x]
        if sum(p.shape[1] for p in parts) <= 48:
            node = ops.node("concat", *(p.node for p in parts), axis=1)
            self.images.append(self.add(node, max(p.most for p in parts), all(p.exact for p in parts)))

    def layer_branches(self) -> None:
        x = self.x
        parts = [self.convolved(x, self.pick(CHANNELS[:6]), (1, 1), 1, 1) for _ in range(self.number(2, 3))]
        parts = [p for p in parts if p.shape[2:] == parts[0].shape[2:]]
        node = ops.node("concat", *(p.node for p in parts), axis=1)
        self.images.append(self.add(node, max(p.most for p in parts), all(p.exact for p in parts)))

    def layer_split(self) -> None:
        x = self.x
        if x.shape[1] < 2:
            return
        at = self.number(1, x.shape[1] - 1)
        halves = [
            ops.node("slice", x.node, starts=(0, start, 0, 0), steps=(1, 1, 1, 1), shape=(x.shape[0], c, *x.shape[2:]))
            for start, c in ((0, at), (at, x.shape[1] - at))
        ]
        first = self.add(halves[0], x.most, x.exact)
        if self.chance(2):
            first = self.convolved(first, at, (1, 1), 1, 1)
        self.images.append(first)
        if first.shape[2:] == x.shape[2:] and self.chance(2):
            node = ops.node("concat", first.node, halves[1], axis=1)
            self.images.append(self.add(node, max(x.most, first.most), first.exact and x.exact))

    def layer_shuffle(self) -> None:
        n, c, h, w = self.x.shape
        groups = self.pick([g for g in range(1, c + 1) if c % g == 0])
        node = ops.node("reshape", self.x.node, shape=(n, groups, c // groups, h, w))
        node = ops.node("reshape", ops.node("transpose", node, perm=(0, 2, 1, 3, 4)), shape=(n, c, h, w))
        self.images.append(self.add(node, self.x.most, self.x.exact))

    def layer_pool(self) -> None:
        x = self.x
        k = self.pick((2, 3))
        node = x.node
        if self.chance(2) or min(x.shape[2:]) < k:
            lowest = self.pick((0.0, -LIMIT))
            node = ops.node("pad", node, before=(0, 0, 1, 1), after=(0, 0, k - 1, k - 1), value=lowest)
        combine = self.pick(("max", "max", "add"))
        node = ops.node(
            "pool", node, combine=combine, kernel=(k, k), strides=(self.pick((1, 2)),) * 2, dilations=(1, 1)
        )
        most = max(x.most, LIMIT) * k * k if combine == "add" else max(x.most, LIMIT)
        self.images.append(self.add(node, most, x.exact))

    def layer_excite(self) -> None:
        x = self.x
        mean = ops.node("reduce", x.node, combine="add", axes=(2, 3))
        if self.chance(2):
            mean = ops.node("mul", mean, self.one(1 / 4))
        gate = Value(mean, x.most * x.shape[2] * x.shape[3], x.exact)
        w = self.filters(x.shape[1], x.shape[1], 1, 1)
        n = ops.node("conv", gate.node, w.node, strides=(1, 1), dilations=(1, 1), groups=1)
        n = ops.node("sigmoid", ops.node("mul", n, self.one(1 / 64)))
        self.images.append(self.add(ops.node("mul", x.node, n), x.most, False))

    def layer_enlarge(self) -> None:
        n, c, h, w = self.x.shape
        if n * c * h * w > 1500:
            return
        node = ops.node("reshape", self.x.node, shape=(n, c, h, 1, w, 1))
        node = ops.node("broadcast", node, shape=(n, c, h, 2, w, 2))
        self.images.append(self.add(ops.node("reshape", node, shape=(n, c, 2 * h, 2 * w)), self.x.most, self.x.exact))

    def layer_blocks(self) -> None:
        """Space to depth or back."""
        n, c, h, w = self.x.shape
        if h % 2 == 0 and w % 2 == 0 and c <= 10:
            node = ops.node("reshape", self.x.node, shape=(n, c, h // 2, 2, w // 2, 2))
            node = ops.node("transpose", node, perm=self.pick(((0, 3, 5, 1, 2, 4), (0, 1, 3, 5, 2, 4))))
            node = ops.node("reshape", node, shape=(n, 4 * c, h // 2, w // 2))
        elif c % 4 == 0:
            node = ops.node("reshape", self.x.node, shape=(n, c // 4, 2, 2, h, w))
            node = ops.node("transpose", node, perm=(0, 1, 4, 2, 5, 3))
            node = ops.node("reshape", node, shape=(n, c // 4, 2 * h, 2 * w))
        else:
            return
        self.images.append(self.add(node, self.x.most, self.x.exact))

    def layer_crop(self) -> None:
        n, c, h, w = self.x.shape
        if min(h, w) > 2:
            node = ops.node(
                "slice", self.x.node, starts=(0, 0, 1, 0), steps=(1, 1, 1, 2), shape=(n, c, h - 2, (w + 1) // 2)
            )
            self.images.append(self.add(node, self.x.most, self.x.exact))

    def layer_tokens(self) -> None:
        """To rows of channels, through a layer of a transformer, and back to an image."""
        n, c, h, w = self.x.shape
        if n * h * w > 120 or c % 2:
            return
        rows = ops.node("transpose", ops.node("reshape", self.x.node, shape=(n, c, h * w)), perm=(0, 2, 1))
        exact, most = self.x.exact, self.x.most
        if self.chance(2):
            count = self.one(c)
            d = ops.node("sub", rows, ops.node("div", ops.node("reduce", rows, combine="add", axes=(2,)), count))
            square = ops.node("div", ops.node("reduce", ops.node("mul", d, d), combine="add", axes=(2,)), count)
            rows = ops.node("div", d, ops.node("sqrt", ops.node("add", square, self.one(1))))
            rows, exact, most = ops.node("mul", rows, self.leaf((c,)).node), False, 3 * c
        y = rows
        if self.chance(2):
            q, k, v = (ops.node("matmul", rows, self.filters(c, c).node) for _ in range(3))
            q, v = (
                ops.node("transpose", ops.node("reshape", t, shape=(n, h * w, 2, c // 2)), perm=(0, 2, 1, 3))
                for t in (q, v)
            )
            k = ops.node("transpose", ops.node("reshape", k, shape=(n, h * w, 2, c // 2)), perm=(0, 2, 3, 1))
            scores = ops.node("mul", ops.node("matmul", q, k), self.one(1 / (most * most * c * c + 1)))
            e = ops.node("exp", ops.node("sub", scores, ops.node("reduce", scores, combine="max", axes=(3,))))
            p = ops.node("div", e, ops.node("reduce", e, combine="add", axes=(3,)))
            y = ops.node("transpose", ops.node("matmul", p, v), perm=(0, 2, 1, 3))
            y, exact, most = ops.node("reshape", y, shape=(n, h * w, c)), False, most * c
        y = ops.node("add", ops.node("matmul", y, self.filters(c, c).node), rows)
        back = ops.node("reshape", ops.node("transpose", y, perm=(0, 2, 1)), shape=(n, c, h, w))
        self.images.append(self.add(back, most * c + most, exact))

    def network(self, layers: int) -> Case:
        kinds = {name[6:]: getattr(self, name) for name in sorted(dir(self)) if name.startswith("layer_")}
        names = [*kinds, "conv", "conv", "depthwise", "activation", "activation", "residual", "join"]
        for _ in range(layers):
            kinds[self.pick(names)]()
        results = [self.x]
        if self.chance(3):
            n, c, h, w = self.x.shape
            flat = ops.node("reshape", ops.node("reduce", self.x.node, combine="add", axes=(2, 3)), shape=(n, c))
            flat = ops.node("matmul", flat, self.filters(c, 10).node)
            results = [Value(flat, 0, self.x.exact and self.x.most * h * w * c < 2**24)]
        results += [v for v in self.images[1:-1] if self.chance(8)]
        named = tuple((f"y{k}", v.node) for k, v in enumerate(results))
        return Case(Graph(tuple(self.inputs), named), frozenset(f"y{k}" for k, v in enumerate(results) if v.exact))


@st.composite
def networks(draw) -> Case:  # type: ignore[no-untyped-def]
    """A network of 3 to 12 layers."""
    return NetworkMaker(draw).network(draw(st.integers(3, 12)))
