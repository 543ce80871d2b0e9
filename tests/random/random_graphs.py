"""Random graphs of core operators, for tests that hold every stage against the reference."""

from __future__ import annotations

from math import prod

from hypothesis import strategies as st
from random_values import ELEMENTS, Case, Maker, Value, is_plain_sum

from edgec import ops
from edgec.ir.graph import Graph, Node
from edgec.ir.types import is_float
from edgec.ops.contraction import window_extent


class GraphMaker(Maker):
    """One operator, or a few that belong together, a step."""

    # ---- element-wise operators

    def step_unary(self) -> None:
        x = self.operand(self.pick(["f32"] * 5 + ["i32", "f64", "i64"]))
        name = self.pick(["neg", "abs", "relu", "square", "sign", "floor", "double", "clip"])
        n, most = x.node, x.most
        if name == "relu":
            node = ops.node("max", n, self.one(0, x.dtype))
        elif name == "square":
            node, most = ops.node("mul", n, n), most * most
        elif name in ("sign", "floor"):
            x = self.exactly(x)
            node = ops.node("sign" if name == "sign" or not is_float(x.dtype) else "floor", x.node)
        elif name == "double" and is_float(x.dtype):
            node = ops.node("mul", n, self.one(2.0, x.dtype))
            most *= 2
        elif name == "clip":
            node = ops.node("min", ops.node("max", n, self.one(-2, x.dtype)), self.one(2, x.dtype))
        else:
            node = ops.node(name if name in ("neg", "abs") else "neg", n)
        self.add(node, most, x.exact)

    def step_smooth(self) -> None:
        x = self.operand(self.pick(["f32"] * 4 + ["f64"]))
        name = self.pick(["tanh", "sigmoid", "exp", "sqrt", "erf", "sin", "divide", "silu"])
        n = x.node
        small = ops.node("min", ops.node("max", n, self.one(-4, x.dtype)), self.one(4, x.dtype))
        if name == "exp":
            self.add(ops.node("exp", small), 60, False)
        elif name == "sqrt":
            self.add(ops.node("sqrt", ops.node("add", ops.node("abs", n), self.one(1, x.dtype))), x.most, False)
        elif name == "divide":
            y = self.partner(x)
            self.add(ops.node("div", n, ops.node("add", ops.node("abs", y.node), self.one(1, x.dtype))), x.most, False)
        elif name == "silu":
            self.add(ops.node("mul", n, ops.node("sigmoid", n)), x.most, False)
        else:
            self.add(ops.node(name, small), 4, False)

    def step_binary(self) -> None:
        x = self.operand(self.pick(["f32"] * 5 + ["i32", "u8", "f64"]))
        y = self.partner(x)
        names = ["add", "mul", "max", "min"] + (["sub"] if x.dtype != "u8" else [])
        name = self.pick(names)
        most = x.most * y.most if name == "mul" else x.most + y.most
        if x.dtype == "u8":
            name, most = self.pick(["max", "min"]), max(x.most, y.most)
        args = (x, y) if self.chance(2) else (y, x)
        self.add(ops.node(name, *(a.node for a in args)), most, x.exact and y.exact)

    def step_choice(self) -> None:
        x = self.exactly(self.operand(self.pick(["f32", "f32", "i32"])))
        y = self.exactly(self.partner(x))
        condition = ops.node(self.pick(["lt", "le", "gt", "ge", "eq", "ne"]), x.node, y.node)
        if self.chance(3):
            other = self.leaf(condition.type.shape, "bool")
            condition = ops.node(self.pick(["and", "or", "xor"]), condition, other.node)
        if self.chance(4):
            self.add(ops.node("not", condition), 1, True)
            return
        z = self.operand("f32")
        if z.shape != condition.type.shape:
            z = self.leaf(condition.type.shape)
        w = self.partner(z)
        self.add(ops.node("select", condition, z.node, w.node), max(z.most, w.most), z.exact and w.exact)

    def step_cast(self) -> None:
        x = self.operand(None)
        to = self.pick(["f32", "f32", "i32", "i64", "f64", "bool", "u8", "f16"])
        if not is_float(to):
            x = self.exactly(x)
        if to == "u8" or (x.dtype == "u8" and not is_float(to)):
            x = Value(ops.node("abs", x.node) if x.dtype not in ("bool", "u8") else x.node, x.most, x.exact)
            if x.most > 255:
                return
        if to == "f16":
            if x.most > 2000 or not x.exact:
                return
            self.add(ops.node("cast", ops.node("cast", x.node, to="f16"), to="f32"), x.most, True)
            return
        self.add(ops.node("cast", x.node, to=to), x.most, x.exact)

    # ---- movement

    def step_reshape(self) -> None:
        x = self.operand(None)
        total = x.node.type.elements
        shape: list[int] = []
        if total == 0:
            shape = [0, *x.shape[:2]]
        else:
            while total > 1 and len(shape) < 4:
                divisors = [d for d in range(2, total + 1) if total % d == 0]
                shape.append(self.pick(divisors))
                total //= shape[-1]
            shape += [total] if total > 1 else []
            if self.chance(4):
                shape.insert(self.number(0, len(shape)), 1)
        self.add(ops.node("reshape", x.node, shape=tuple(shape)), x.most, x.exact)

    def step_transpose(self) -> None:
        x = self.operand(None, least=2)
        perm = tuple(int(p) for p in self.random.permutation(x.rank))
        self.add(ops.node("transpose", x.node, perm=perm), x.most, x.exact)

    def step_slice(self) -> None:
        x = self.operand(None, least=2)
        starts, steps, shape = [], [], []
        for extent in x.shape:
            size = self.number(0 if self.extents[0] == 0 and self.chance(10) else 1, extent) if extent else 0
            step = self.number(1, max(1, (extent - 1) // (size - 1)) if size > 1 else 2)
            start = self.number(0, extent - 1 - step * (size - 1)) if size else 0
            if size and self.chance(4):
                start, step = start + step * (size - 1), -step
            starts.append(start)
            steps.append(step)
            shape.append(size)
        self.add(
            ops.node("slice", x.node, starts=tuple(starts), steps=tuple(steps), shape=tuple(shape)), x.most, x.exact
        )

    def step_concat(self) -> None:
        x = self.operand(None)
        if not x.rank:
            return
        axis = self.number(0, x.rank - 1)
        parts = [x]
        for _ in range(self.number(1, 2)):
            fits = [
                v
                for v in self.values
                if v.dtype == x.dtype and v.rank == x.rank and v.shape[:axis] == x.shape[:axis]
                and v.shape[axis + 1 :] == x.shape[axis + 1 :]
            ]  # fmt: skip
            if fits and not self.chance(3):
                parts.append(self.pick(fits))
            else:
                shape = list(x.shape)
                shape[axis] = self.pick(self.extents[:5])
                parts.append(self.leaf(tuple(shape), x.dtype))
        if sum(p.node.type.elements for p in parts) > ELEMENTS:
            return
        order = [parts[int(k)] for k in self.random.permutation(len(parts))]
        self.add(
            ops.node("concat", *(p.node for p in order), axis=axis),
            max(p.most for p in parts), all(p.exact for p in parts),
        )  # fmt: skip

    def step_pad(self) -> None:
        x = self.operand(self.pick(["f32", "f32", "f32", "i32"]))
        before = [self.pick((0, 0, 1, 2)) for _ in x.shape]
        after = [self.pick((0, 0, 1, 3)) for _ in x.shape]
        if prod(b + n + a for b, n, a in zip(before, x.shape, after)) > ELEMENTS:
            return
        value = self.pick((0.0, 0.0, -1.0))
        self.add(ops.node("pad", x.node, before=tuple(before), after=tuple(after), value=value), x.most, x.exact)

    def step_update(self) -> None:
        x = self.operand(None)
        fits = [
            v
            for v in self.values
            if v.dtype == x.dtype and v.rank == x.rank and all(n <= e for n, e in zip(v.shape, x.shape))
        ]
        shape = tuple(self.number(0, e) if self.chance(2) else e for e in x.shape)
        part = self.pick(fits) if fits and not self.chance(4) else self.leaf(shape, x.dtype)
        starts = tuple(self.number(0, e - n) for e, n in zip(x.shape, part.shape))
        self.add(ops.node("update", x.node, part.node, starts=starts), max(x.most, part.most), x.exact and part.exact)

    def step_broadcast(self) -> None:
        x = self.operand(None)
        shape = [self.pick((2, 3, 5)) if e == 1 else e for e in x.shape]
        if self.chance(2):
            shape.insert(0, self.pick((1, 2, 3)))
        if prod(shape) <= ELEMENTS:
            self.add(ops.node("broadcast", x.node, shape=tuple(shape)), x.most, x.exact)

    # ---- reductions

    def step_reduce(self) -> None:
        x = self.operand(self.pick(["f32"] * 5 + ["i32", "f64"]))
        axes = tuple(d for d in range(x.rank) if self.chance(2))
        combine = self.pick(["add", "add", "max", "min"])
        count = prod(x.shape[d] for d in axes)
        if not count and combine != "add":
            return
        self.add(
            ops.node("reduce", x.node, combine=combine, axes=axes),
            x.most * max(count, 1) if combine == "add" else x.most, x.exact,
        )  # fmt: skip

    def step_softmax(self) -> None:
        x = self.operand("f32", least=1)
        if not x.rank:
            return
        axes = (self.number(0, x.rank - 1),) if not self.chance(4) else tuple(range(x.rank))
        small = ops.node("min", ops.node("max", x.node, self.one(-5)), self.one(5))
        most = ops.node("reduce", small, combine="max", axes=axes)
        e = ops.node("exp", ops.node("sub", small, most))
        self.add(ops.node("div", e, ops.node("reduce", e, combine="add", axes=axes)), 1, False)

    def step_normalize(self) -> None:
        x = self.operand("f32", least=2)
        if not x.rank:
            return
        axes = (x.rank - 1,) if self.chance(2) else tuple(range(self.number(0, x.rank - 1), x.rank))
        count = self.one(prod(x.shape[d] for d in axes))
        mean = ops.node("div", ops.node("reduce", x.node, combine="add", axes=axes), count)
        d = ops.node("sub", x.node, mean)
        variance = ops.node("div", ops.node("reduce", ops.node("mul", d, d), combine="add", axes=axes), count)
        y = ops.node("div", d, ops.node("sqrt", ops.node("add", variance, self.one(1))))
        scale = self.leaf(x.shape[-1:])
        self.add(ops.node("mul", y, scale.node), 3 * x.most, False)

    def step_prefix(self) -> None:
        x = self.operand(self.pick(["f32", "f32", "i32"]), least=1)
        if x.rank:
            axis = self.number(0, x.rank - 1)
            combine = self.pick(["add", "add", "max", "min"])
            exclusive = combine == "add" and self.chance(2)  # of no element, the others are infinite
            node = ops.node("prefix", x.node, combine=combine, axis=axis, exclusive=exclusive, reverse=self.chance(2))
            self.add(node, x.most * x.shape[axis], x.exact)

    def step_pool(self) -> None:
        x = self.operand("f32", least=4)
        if not x.rank:
            return
        n = self.number(1, min(x.rank, 3))
        kernel = [self.number(1, min(3, e)) for e in x.shape[-n:]]
        strides = [self.number(1, 2) for _ in kernel]
        dilations = [self.number(1, 2) for _ in kernel]
        if not all(window_extent(*s) for s in zip(x.shape[-n:], kernel, strides, dilations)):
            return
        combine = self.pick(["max", "add", "min"])
        node = ops.node(
            "pool", x.node, combine=combine, kernel=tuple(kernel), strides=tuple(strides), dilations=tuple(dilations)
        )
        self.add(node, x.most * prod(kernel), x.exact)

    # ---- contractions

    def step_matmul(self) -> None:
        a = self.operand(self.pick(["f32"] * 6 + ["i32", "f64"]), rank=self.pick([2, 2, 3, 4]))
        n = self.pick(self.extents)
        fits = [v for v in self.values if v.dtype == a.dtype and v.rank == 2 and v.shape[0] == a.shape[-1]]
        turned = [v for v in self.values if v.dtype == a.dtype and v.rank == 2 and v.shape[1] == a.shape[-1]]
        if turned and self.chance(3):
            t = self.pick(turned)
            b = Value(ops.node("transpose", t.node, perm=(1, 0)), t.most, t.exact)
        elif fits and self.chance(2):
            b = self.pick(fits)
        else:
            batch = tuple(1 if self.chance(3) else e for e in a.shape[:-2]) if self.chance(2) else ()
            b = self.leaf((*batch, a.shape[-1], n), a.dtype)
        if prod(a.shape[:-1]) * b.shape[-1] <= ELEMENTS:
            self.add(ops.node("matmul", a.node, b.node), a.most * b.most * max(a.shape[-1], 1), a.exact and b.exact)

    def step_conv(self) -> None:
        x = self.operand("f32", rank=self.pick([3, 4, 4, 5]), least=4)
        channels, space = x.shape[1], x.shape[2:]
        groups = self.pick([g for g in {1, 2, 3, channels} if g and channels % g == 0])
        kernel = tuple(self.number(1, min(3, e)) for e in space)
        strides = tuple(self.number(1, 2) for _ in kernel)
        dilations = tuple(self.pick((1, 1, 2)) for _ in kernel)
        outputs = groups * self.pick((1, 1, 2, 3, 8))
        extents = [window_extent(*s) for s in zip(space, kernel, strides, dilations)]
        if not all(extents) or prod(extents) * outputs * x.shape[0] > ELEMENTS:
            return
        w = self.leaf((outputs, channels // groups, *kernel), low=-2, high=2)
        node = ops.node("conv", x.node, w.node, strides=strides, dilations=dilations, groups=groups)
        most = x.most * 2 * prod(kernel) * channels // groups
        if self.chance(2):
            node = ops.node("add", node, self.leaf((outputs, *(1 for _ in kernel))).node)
        self.add(node, most + 3, x.exact and is_plain_sum(kernel, strides, outputs * channels // groups))

    # ---- data-dependent positions

    def step_gather(self) -> None:
        x = self.operand(None, least=1)
        if not x.rank:
            return
        axis = self.number(0, x.rank - 1)
        shape = self.shape(self.number(0, 2))
        if prod(shape) * x.node.type.elements // x.shape[axis] > ELEMENTS:
            return
        # Positions outside are clamped into the dimension, negative ones count from the end.
        positions = self.leaf(shape, self.pick(["i64", "i32"]), -x.shape[axis], x.shape[axis] - 1)
        self.add(ops.node("gather", x.node, positions.node, axis=axis), x.most, x.exact)

    def step_gather_elements(self) -> None:
        x = self.operand(None, least=1)
        if not x.rank:
            return
        axis = self.number(0, x.rank - 1)
        shape = [self.number(1, e) for e in x.shape]
        positions = self.leaf(tuple(shape), "i64", -x.shape[axis], x.shape[axis] - 1)
        self.add(ops.node("gather_elements", x.node, positions.node, axis=axis), x.most, x.exact)

    def step_scatter(self) -> None:
        x = self.operand("f32", least=1)
        if not x.rank:
            return
        axis = self.number(0, x.rank - 1)
        shape = tuple(self.number(1, min(e, 4)) for e in x.shape)
        positions = self.leaf(shape, "i64", -x.shape[axis], x.shape[axis] - 1)
        updates = self.leaf(shape)
        combine = self.pick(["last", "add", "max"])
        self.add(
            ops.node("scatter_elements", x.node, positions.node, updates.node, axis=axis, combine=combine),
            x.most + 3 * prod(shape), x.exact,
        )  # fmt: skip

    def step_sort(self) -> None:
        x = self.exactly(self.operand(self.pick(["f32", "f32", "i32", "u8"]), least=1))
        if not x.rank:
            return
        axis = self.number(0, x.rank - 1)
        count = self.pick([None, self.number(1, x.shape[axis])])
        order = ops.node("argsort", x.node, axis=axis, descending=self.chance(2), count=count)
        chosen = order if self.chance(2) else ops.node("gather_elements", x.node, order, axis=axis)
        self.add(chosen, max(x.most, x.shape[axis]), True)

    def step_compact(self) -> None:
        x = self.exactly(self.operand("f32", least=1))
        mask = ops.node(self.pick(["gt", "eq"]), x.node, self.one(0))
        self.add(ops.node("compact", mask), x.node.type.elements, True)

    # ---- whole graphs

    def graph(self, steps: int) -> Case | None:
        kinds = {name[5:]: getattr(self, name) for name in sorted(dir(self)) if name.startswith("step_")}
        often = ("binary", "reshape", "transpose", "slice", "concat", "pad", "matmul", "conv", "reduce", "unary")
        names = [*kinds, *often, *often]
        for _ in range(steps):
            kinds[self.pick(names)]()
        if not self.values:
            return None
        read = {a for v in self.values for a in _inside(v.node)}
        outputs = [v for v in self.values if v.node not in read]
        outputs += [v for v in self.values if v.node in read and self.chance(8)]
        if self.chance(10):
            outputs.append(outputs[0])
        if self.inputs and self.chance(12):
            outputs.append(Value(self.inputs[0], 3, True))
        named = tuple((f"y{k}", v.node) for k, v in enumerate(outputs))
        exact = frozenset(f"y{k}" for k, v in enumerate(outputs) if v.exact)
        return Case(Graph(tuple(self.inputs), named), exact)


def _inside(node: Node) -> set[Node]:
    """Everything that ``node`` is computed from."""
    found: set[Node] = set()
    stack = list(node.args)
    while stack:
        n = stack.pop()
        if n not in found:
            found.add(n)
            stack.extend(n.args)
    return found


@st.composite
def cases(draw) -> Case | None:  # type: ignore[no-untyped-def]
    """A graph of 3 to 10 steps; one in six may have dimensions without elements."""
    empty = draw(st.integers(1, 6)) == 1
    return GraphMaker(draw, empty).graph(draw(st.integers(3, 10)))
